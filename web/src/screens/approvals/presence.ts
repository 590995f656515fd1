import { counts } from "../../api/passkey";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";

/** Whether an answer has to prove that its voter is there: any at all, or a yes. */
export function presenceWanted(approval: Approval, allow: boolean): boolean {
  const any = approval.you?.withPresence === true;
  return any || (allow && (approval.presenceWanted || approval.needs?.presence === true));
}

/** Whether a vote without a proof would be taken, though it may not be enough. */
export function takenWithout(approval: Approval): boolean {
  return approval.you?.withPresence !== true;
}

/** How the caller can prove to be there, in this browser. */
export type Means =
  | { can: true }
  /** waiting is the passkey that would do, were it confirmed. */
  | { can: false; why: string; waiting?: Passkey };

/** browser is why this one has no passkeys, undefined where it has. */
export function meansOf(own: readonly Passkey[], browser: string | undefined): Means {
  if (browser !== undefined) return { can: false, why: browser };
  if (own.some(counts)) return { can: true };
  const waiting = own.find((p) => p.waits && !p.lost);
  if (waiting !== undefined) return { can: false, why: "Your passkey waits to be confirmed.", waiting };
  if (own.length > 0) return { can: false, why: "Your passkeys were made for another address of this console and are lost. Enrol one anew." };
  return { can: false, why: "You have no passkey." };
}

/** Whether somebody who said yes may say it again, with the proof that it lacked. */
export function mayProveLater(approval: Approval, user: string | undefined): boolean {
  const mine = approval.votes.find((v) => v.user === user);
  return mine !== undefined && mine.allow && !mine.present && presenceWanted(approval, true);
}
