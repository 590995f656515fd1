import { useState } from "react";
import { Dialog } from "../ui/Dialog";
import { Checkbox } from "../ui/Field";
import { activeKeys, areKeysEnabled, setKeysEnabled } from "./keys";

/** The dialog with the keyboard shortcuts of the current screen. */
export function KeysHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [isEnabled, setIsEnabled] = useState(areKeysEnabled);
  if (!open) return null;
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2">
        {activeKeys().map((key) => (
          <div key={key.key} className="contents">
            <dt>
              <kbd className="rounded border border-edge bg-panel px-1.5 py-0.5 font-mono text-sm">{key.key}</kbd>
            </dt>
            <dd>{key.description}</dd>
          </div>
        ))}
      </dl>
      <div className="mt-4 border-t border-line pt-3">
        <Checkbox
          label="Enable single-key shortcuts"
          checked={isEnabled}
          onChange={(event) => {
            setKeysEnabled(event.target.checked);
            setIsEnabled(event.target.checked);
          }}
        />
      </div>
    </Dialog>
  );
}
