import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";

export interface Tab {
  id: string;
  label: string;
  content: ReactNode;
}

/** Tabs. Keep the selected tab in the address (useQueryParam), so that the view has a permalink. */
export function Tabs({ tabs, value, onChange, label }: { tabs: readonly Tab[]; value: string; onChange: (id: string) => void; label: string }) {
  return (
    <Radix.Root value={value} onValueChange={onChange}>
      <Radix.List aria-label={label} className="flex flex-wrap gap-1 border-b border-line">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.id}
            value={tab.id}
            className="-mb-px min-h-8 cursor-pointer border-b-2 border-transparent px-3 py-1.5 text-quiet hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.id} value={tab.id} className="pt-3">
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
