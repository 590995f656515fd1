import { useState } from "react";
import { Button } from "./Button";
import { cx } from "./cx";
import { Untrusted } from "./Untrusted";

const most = 1000;

/** A diff that is text, in git's form: each line by its sign, which is said in the text itself. */
export function DiffText({ text, label }: { text: string; label: string }) {
  const [shown, setShown] = useState(most);
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    <div className="overflow-hidden rounded-lg border border-line">
      <div className="overflow-x-auto py-1 font-mono text-sm" tabIndex={0} role="region" aria-label={label}>
        {lines.slice(0, shown).map((line, i) => (
          // The lines of one text have no other identity than their place.
          <div key={i} className={cx("min-h-6 px-3 break-all whitespace-pre-wrap", tone(line))}>
            <Untrusted text={line} />
          </div>
        ))}
      </div>
      {lines.length > shown && (
        <p className="border-t border-line p-2">
          <Button size="small" onClick={() => setShown(shown + 5 * most)}>
            Show more of {(lines.length - shown).toLocaleString()} lines that follow
          </Button>
        </p>
      )}
    </div>
  );
}

function tone(line: string): string {
  if (line.startsWith("diff --git ")) return "border-t border-line bg-panel font-semibold first:border-t-0";
  if (line.startsWith("@@")) return "bg-panel text-quiet";
  if (line.startsWith("# ")) return "bg-warn-soft text-warn";
  if (line.startsWith("+")) return "bg-good-soft";
  if (line.startsWith("-")) return "bg-bad-soft";
  return "";
}
