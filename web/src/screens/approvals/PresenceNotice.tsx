import { passkeyProblem } from "../../api/passkey";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ScreenLink } from "../../shell/router";
import { Notice } from "../../ui/State";
import { usePasskeys } from "../passkeys/list";
import { ConfirmationNotice } from "../passkeys/ConfirmationNotice";
import type { ProofAvailability } from "./presence";
import { proofAvailability, requiresPresence, acceptsVoteWithoutProof } from "./presence";

/** Returns how the caller can prove presence; undefined if policy does not require it, or while loading. */
export function useProofAvailability(approval: Approval): ProofAvailability | undefined {
  const isRequired = requiresPresence(approval, true);
  const query = usePasskeys(false, isRequired);
  if (!isRequired) return undefined;
  if (query.isError) return { can: false, why: "Your passkeys cannot be loaded." };
  return query.data === undefined ? undefined : proofAvailability(query.data, passkeyProblem());
}

/** Announces the request for a passkey before the buttons, or explains why it is not possible. */
export function PresenceNotice({ approval, proof }: { approval: Approval; proof: ProofAvailability | undefined }) {
  if (!requiresPresence(approval, true) || proof === undefined) return null;
  if (proof.can) {
    return (
      <Notice>
        Policy requires a proof of presence: {acceptsVoteWithoutProof(approval) ? "an approval" : "each answer"} asks for your passkey, which signs exactly this answer.
      </Notice>
    );
  }
  return (
    <>
      <Notice tone="warn">
        <p className="font-semibold">Policy requires a proof of presence, which you cannot give here.</p>
        <p>
          {proof.why}{" "}
          <ScreenLink to="/passkeys" className="text-accent underline">
            Your passkeys
          </ScreenLink>
        </p>
        {acceptsVoteWithoutProof(approval) && <p>An approval without a proof is recorded, but it is not sufficient.</p>}
      </Notice>
      {proof.unconfirmed !== undefined && <ConfirmationNotice passkey={proof.unconfirmed} />}
    </>
  );
}
