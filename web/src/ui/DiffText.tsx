import { useState } from "react";
import { Button } from "./Button";
import { cx } from "./cx";
import { Untrusted } from "./Untrusted";

const initialLines = 1000;

/** A diff in git's text form, coloured by the sign of each line. */
export function DiffText({ text, label }: { text: string; label: string }) {
  const [visibleLines, setVisibleLines] = useState(initialLines);
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    <div className="overflow-hidden rounded-lg border border-line">
      <div className="overflow-x-auto py-1 font-mono text-sm" tabIndex={0} role="region" aria-label={label}>
        {lines.slice(0, visibleLines).map((line, i) => (
          // The index is the only identity of a line.
          <div key={i} className={cx("min-h-6 px-3 break-all whitespace-pre-wrap", tone(line))}>
            <Untrusted text={line} />
          </div>
        ))}
      </div>
      {lines.length > visibleLines && (
        <p className="border-t border-line p-2">
          <Button size="small" onClick={() => setVisibleLines(visibleLines + 5 * initialLines)}>
            Show more ({(lines.length - visibleLines).toLocaleString()} lines left)
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
