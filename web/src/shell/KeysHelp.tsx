import { useState } from "react";
import { Dialog } from "../ui/Dialog";
import { Checkbox } from "../ui/Field";
import { activeKeys, keysOn, setKeysOn } from "./keys";

/** What keys do on the screen that is open. */
export function KeysHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [on, setOn] = useState(keysOn);
  if (!open) return null;
  return (
    <Dialog open onClose={onClose} title="What keys do here">
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2">
        {activeKeys().map((key) => (
          <div key={key.key} className="contents">
            <dt>
              <kbd className="rounded border border-edge bg-panel px-1.5 py-0.5 font-mono text-sm">{key.key}</kbd>
            </dt>
            <dd>{key.says}</dd>
          </div>
        ))}
      </dl>
      <div className="mt-4 border-t border-line pt-3">
        <Checkbox
          label="Single keys act"
          checked={on}
          onChange={(event) => {
            setKeysOn(event.target.checked);
            setOn(event.target.checked);
          }}
        />
      </div>
    </Dialog>
  );
}
