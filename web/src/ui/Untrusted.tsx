import { useState } from "react";
import { oneLine, makeVisible } from "../text/visible";
import { Button } from "./Button";
import { cx } from "./cx";

// The number of characters rendered at first, and with each further click.
const initialLength = 20_000;
const step = 200_000;

/**
 * Text of a model, a tool or a server. It is never rendered as markup, invisible and control
 * characters are made visible, and it cannot reorder the surrounding text. All text that is
 * not the gateway's own MUST be rendered with this component.
 */
export function Untrusted({ text, block, line, className }: {
  text: string;
  /** Renders a block of wrapped, monospaced lines. */
  block?: boolean;
  /** Renders one line of at most this many characters, for lists. */
  line?: number;
  className?: string;
}) {
  const [limit, setLimit] = useState(initialLength);
  if (line !== undefined) {
    return (
      <bdi className={cx("font-mono whitespace-nowrap", className)} dir="ltr">
        {oneLine(text, line)}
      </bdi>
    );
  }
  const head = text.length > limit ? text.slice(0, limit) : text;
  const pieces = (
    <bdi dir="ltr" className="[unicode-bidi:isolate-override]">
      {makeVisible(head).map((piece, i) =>
        piece.name === undefined ? (
          piece.text
        ) : (
          // The index is the only identity of a piece.
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
      <Button size="small" onClick={() => setLimit(limit + step)}>
        Show {Math.min(step, rest).toLocaleString()} of {rest.toLocaleString()} more characters
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
