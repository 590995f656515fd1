import { DropdownMenu as Radix } from "radix-ui";
import type { ReactNode } from "react";

/** A menu under a button. It is not modal, because Radix's modal menus insert a <style>. */
export function Menu({ button, children, align = "end" }: { button: ReactNode; children: ReactNode; align?: "start" | "end" }) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{button}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content align={align} sideOffset={4} className="z-50 min-w-48 rounded-md border border-line bg-page p-1 shadow-lg">
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

export function MenuItem({ onSelect, children }: { onSelect: () => void; children: ReactNode }) {
  return (
    <Radix.Item onSelect={onSelect} className="flex min-h-7 cursor-pointer items-center gap-2 rounded px-2 py-1 outline-none data-[highlighted]:bg-sunk">
      {children}
    </Radix.Item>
  );
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2 py-1 text-sm text-quiet">{children}</Radix.Label>;
}
