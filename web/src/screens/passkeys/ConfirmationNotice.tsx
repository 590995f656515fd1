import type { Passkey } from "../../gen/palyra/v1/presence_pb";
import { Copy } from "../../ui/Copy";
import { Notice } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { confirmCommand } from "./list";

/** A notice on how to confirm a passkey, with the command for the gateway's host. */
export function ConfirmationNotice({ passkey }: { passkey: Passkey }) {
  const command = confirmCommand(passkey.passkeyId);
  return (
    <Notice tone="warn">
      <p>
        <Untrusted text={passkey.name} className="font-semibold" /> must be confirmed before it can prove presence: with another passkey of its member, by an independent admin, or on the gateway's host. If agents are connected, a first passkey can be confirmed only on the host:
      </p>
      <p className="mt-1 flex flex-wrap items-center gap-2">
        <code className="font-mono text-sm break-all">{command}</code>
        <Copy text={command} label="Copy" name="Copy the command" />
      </p>
    </Notice>
  );
}
