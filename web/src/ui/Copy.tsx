import { useState } from "react";
import { Button } from "./Button";

/** A button that copies text and confirms it. */
export function Copy({ text, label, name }: { text: string; label: string; name?: string }) {
  const [message, setMessage] = useState("");
  return (
    <Button
      size="small"
      title={text}
      {...(name === undefined ? {} : { "aria-label": name })}
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => setMessage("Copied"),
          () => setMessage("Copying failed"),
        );
        setTimeout(() => setMessage(""), 2000);
      }}
    >
      <span aria-live="polite">{message === "" ? label : message}</span>
    </Button>
  );
}

/** Copies the equivalent CLI command of a view. Build it with palyra() of text/cli. */
export function CopyAsCli({ command }: { command: string }) {
  return <Copy text={command} label="Copy as CLI" />;
}

/** An id or digest, shortened in the middle; the tooltip and the clipboard have the full value. */
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
