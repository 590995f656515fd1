import { useState } from "react";
import { Button } from "./Button";

/** A button that copies text and says so. */
export function Copy({ text, label, name }: { text: string; label: string; name?: string }) {
  const [said, setSaid] = useState("");
  return (
    <Button
      size="small"
      title={text}
      {...(name === undefined ? {} : { "aria-label": name })}
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => setSaid("Copied"),
          () => setSaid("The browser refused"),
        );
        setTimeout(() => setSaid(""), 2000);
      }}
    >
      <span aria-live="polite">{said === "" ? label : said}</span>
    </Button>
  );
}

/** The command that does in a terminal what the view does: make it with palyra() of text/cli. */
export function CopyAsCli({ command }: { command: string }) {
  return <Copy text={command} label="Copy as CLI" />;
}

/** An id or digest, shortened in the middle, whole in the tooltip and in the clipboard. */
export function Id({ id, keep = 14 }: { id: string; keep?: number }) {
  const short = id.length > keep + 8 ? `${id.slice(0, keep)}…${id.slice(-6)}` : id;
  return (
    <span className="inline-flex flex-wrap items-center gap-1.5">
      <code title={id} className="font-mono text-sm break-all">
        {short}
      </code>
      <Copy text={id} label="Copy" name={`Copy ${id}`} />
    </span>
  );
}
