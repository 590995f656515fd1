import { useState } from "react";
import { indentJson } from "../text/json";
import { Button } from "./Button";
import { Copy } from "./Copy";
import { Untrusted } from "./Untrusted";

const decoder = new TextDecoder();

/** JSON, either indented or as the exact bytes that a digest covers. */
export function Json({ bytes, redacted = [] }: { bytes: Uint8Array; redacted?: readonly string[] }) {
  const [raw, setRaw] = useState(false);
  const text = decoder.decode(bytes);
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2 text-sm">
        <Button size="small" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          {raw ? "Show indented" : "Show the exact bytes"}
        </Button>
        <Copy text={text} label="Copy JSON" />
        <span className="text-quiet">{bytes.length.toLocaleString()} bytes</span>
      </div>
      <Untrusted block text={raw ? text : indentJson(text)} />
      {redacted.length > 0 && (
        <p className="text-sm text-warn">
          Redacted because it may be a secret: <Untrusted text={redacted.join(", ")} className="font-mono" />. The call uses the real value.
        </p>
      )}
    </div>
  );
}
