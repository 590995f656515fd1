import { whyNoPasskeys } from "../../api/passkey";
import { hasScreen } from "../../routes";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ScreenLink } from "../../shell/router";
import { Notice } from "../../ui/State";
import { usePasskeys } from "../passkeys/list";
import { Waits } from "../passkeys/Waits";
import type { Means } from "./presence";
import { meansOf, presenceWanted, takenWithout } from "./presence";

/** How the caller can prove to be there; undefined where nothing asks for it, or while that is looked up. */
export function useMeans(approval: Approval): Means | undefined {
  const wanted = presenceWanted(approval, true);
  const query = usePasskeys(false, wanted);
  if (!wanted) return undefined;
  if (query.isError) return { can: false, why: "Your passkeys cannot be read just now." };
  return query.data === undefined ? undefined : meansOf(query.data, whyNoPasskeys());
}

/** Says, before the buttons, that a passkey will be asked for, or why it cannot be. */
export function PresenceNotice({ approval, means }: { approval: Approval; means: Means | undefined }) {
  if (!presenceWanted(approval, true) || means === undefined) return null;
  if (means.can) {
    return (
      <Notice>
        Policy wants a person to be there: {takenWithout(approval) ? "a yes" : "each answer"} asks for your passkey, which signs this very answer and no other.
      </Notice>
    );
  }
  return (
    <>
      <Notice tone="warn">
        <p className="font-semibold">Policy wants a person to be there, and you cannot prove it here.</p>
        <p>
          {means.why}{" "}
          {hasScreen("/passkeys") && (
            <ScreenLink to="/passkeys" className="text-accent underline">
              Your passkeys
            </ScreenLink>
          )}
        </p>
        {takenWithout(approval) && <p>A yes is recorded without a proof, too, and is not enough by itself.</p>}
      </Notice>
      {means.waiting !== undefined && <Waits passkey={means.waiting} />}
    </>
  );
}
