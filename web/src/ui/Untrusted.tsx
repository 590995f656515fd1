import { useState } from "react";
import { oneLine, visible } from "../text/visible";
import { Button } from "./Button";
import { cx } from "./cx";

// So much is laid out at once; the rest is a click away and never left out of the record.
const shown = 20_000;
const step = 200_000;

/**
 * Text that a model, a tool or a server wrote. It is never markup; characters that hide,
 * reorder or drive a terminal are seen as what they are; and it cannot reorder the text
 * around it. Every text that did not come from this gateway's own words goes through here.
 */
export function Untrusted({ text, block, line, className }: {
  text: string;
  /** As a block of wrapped, monospaced lines. */
  block?: boolean;
  /** On one line of at most so many characters, for lists. */
  line?: number;
  className?: string;
}) {
  const [most, setMost] = useState(shown);
  if (line !== undefined) {
    return (
      <bdi className={cx("font-mono whitespace-nowrap", className)} dir="ltr">
        {oneLine(text, line)}
      </bdi>
    );
  }
  const head = text.length > most ? text.slice(0, most) : text;
  const pieces = (
    <bdi dir="ltr" className="[unicode-bidi:isolate-override]">
      {visible(head).map((piece, i) =>
        piece.name === undefined ? (
          piece.text
        ) : (
          // The pieces of one text have no other identity than their place.
          <span key={i} role="img" aria-label={piece.name} title={piece.name} className="mx-px rounded-sm bg-warn-soft px-0.5 font-mono text-[0.8em] text-warn outline outline-warn">
            {piece.text}
          </span>
        ),
      )}
    </bdi>
  );
  const rest = text.length - head.length;
  const more = rest > 0 && (
    <span className="mt-2 block">
      <Button size="small" onClick={() => setMost(most + step)}>
        Show {Math.min(step, rest).toLocaleString()} more of {rest.toLocaleString()} characters that follow
      </Button>
    </span>
  );
  if (block !== true) {
    return (
      <span className={cx("wrap-anywhere", className)}>
        {pieces}
        {more}
      </span>
    );
  }
  return (
    <div className={className}>
      <pre tabIndex={0} className="max-h-[60vh] overflow-auto rounded border border-line bg-panel p-3 font-mono text-sm break-all whitespace-pre-wrap">{pieces}</pre>
      {more}
    </div>
  );
}
