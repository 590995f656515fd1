import { isActive } from "../../api/passkey";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import type { Passkey } from "../../gen/palyra/v1/presence_pb";

/** Whether an answer requires a proof of presence. */
export function requiresPresence(approval: Approval, allow: boolean): boolean {
  const any = approval.you?.withPresence === true;
  return any || (allow && (approval.presenceWanted || approval.needs?.presence === true));
}

/** Whether a vote without a proof is accepted, even if it may not be sufficient. */
export function acceptsVoteWithoutProof(approval: Approval): boolean {
  return approval.you?.withPresence !== true;
}

/** How the caller can prove presence in this browser. */
export type ProofAvailability =
  | { can: true }
  /** unconfirmed is a passkey that only lacks the confirmation. */
  | { can: false; why: string; unconfirmed?: Passkey };

/** Returns how the owner of these passkeys can prove presence; browser is the problem of the browser, if any. */
export function proofAvailability(own: readonly Passkey[], browser: string | undefined): ProofAvailability {
  if (browser !== undefined) return { can: false, why: browser };
  if (own.some(isActive)) return { can: true };
  const unconfirmed = own.find((p) => p.waits && !p.lost);
  if (unconfirmed !== undefined) return { can: false, why: "Your passkey is not confirmed yet.", unconfirmed };
  if (own.length > 0) return { can: false, why: "Your passkeys were created for another address of this console and no longer work. Enrol a new passkey." };
  return { can: false, why: "You have no passkey." };
}

/** Whether a user who approved without a proof of presence may approve again with it. */
export function canProveLater(approval: Approval, user: string | undefined): boolean {
  const mine = approval.votes.find((v) => v.user === user);
  return mine !== undefined && mine.allow && !mine.present && requiresPresence(approval, true);
}
