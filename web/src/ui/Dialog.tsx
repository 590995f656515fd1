import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Button } from "./Button";

/**
 * A dialog that traps the focus. Escape closes it, and closing has no side effect.
 * The backdrop is a plain element, because Radix's overlay inserts a <style>.
 */
export function Dialog({ open, onClose, title, description, children, wide }: {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: string;
  children: ReactNode;
  wide?: boolean;
}) {
  return (
    <Radix.Root open={open} onOpenChange={(now) => !now && onClose()}>
      <Radix.Portal>
        <div className="fixed inset-0 z-40 grid place-items-center overflow-y-auto bg-black/55 p-3">
          <Radix.Content
            {...(description === undefined ? { "aria-describedby": undefined } : {})}
            className={`z-50 flex max-h-[calc(100dvh-1.5rem)] w-full flex-col rounded-lg border border-line bg-page shadow-xl ${wide === true ? "max-w-4xl" : "max-w-lg"}`}
          >
            <div className="flex items-start justify-between gap-3 border-b border-line px-4 py-3">
              <div>
                <Radix.Title className="text-lg font-semibold">{title}</Radix.Title>
                {description !== undefined && <Radix.Description className="text-quiet">{description}</Radix.Description>}
              </div>
              <Radix.Close asChild>
                <Button variant="bare" size="small" aria-label="Close">
                  ✕
                </Button>
              </Radix.Close>
            </div>
            <div className="overflow-y-auto px-4 py-3">{children}</div>
          </Radix.Content>
        </div>
      </Radix.Portal>
    </Radix.Root>
  );
}
