import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { Copy } from "../../ui/Copy";
import { Notice } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { confirmCommand } from "./list";

/** What a passkey waits for, with the command of the gateway's host. */
export function Waits({ passkey }: { passkey: Passkey }) {
  const command = confirmCommand(passkey.passkeyId);
  return (
    <Notice tone="warn">
      <p>
        <Untrusted text={passkey.name} className="font-semibold" /> proves nothing before it is confirmed: by another passkey of its member, by an admin who is independent of them, or on the gateway's host (a first one there alone, once agents were connected):
      </p>
      <p className="mt-1 flex flex-wrap items-center gap-2">
        <code className="font-mono text-sm break-all">{command}</code>
        <Copy text={command} label="Copy" name="Copy the command" />
      </p>
    </Notice>
  );
}
