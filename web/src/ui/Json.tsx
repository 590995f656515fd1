import { useState } from "react";
import { layOut } from "../text/json";
import { Button } from "./Button";
import { Copy } from "./Copy";
import { Untrusted } from "./Untrusted";

const decoder = new TextDecoder();

/** JSON in full: laid out for reading, or the very bytes, which are what a digest covers. */
export function Json({ bytes, redacted = [] }: { bytes: Uint8Array; redacted?: readonly string[] }) {
  const [raw, setRaw] = useState(false);
  const text = decoder.decode(bytes);
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2 text-sm">
        <Button size="small" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          {raw ? "Lay it out" : "Show the exact bytes"}
        </Button>
        <Copy text={text} label="Copy JSON" />
        <span className="text-quiet">{bytes.length.toLocaleString()} bytes</span>
      </div>
      <Untrusted block text={raw ? text : layOut(text)} />
      {redacted.length > 0 && (
        <p className="text-sm text-warn">
          Hidden here, because it looks like a secret: <Untrusted text={redacted.join(", ")} className="font-mono" />. The call has the real value.
        </p>
      )}
    </div>
  );
}
