import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { Id } from "../../ui/Copy";
import { Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { waits } from "./decide";
import { needsOf } from "./Needs";

/** That people changed the call: who, why, and what that means for its votes. */
export function Edits({ approval }: { approval: Approval }) {
  if (approval.edits.length === 0) return null;
  return (
    <Notice tone="warn">
      <p className="font-semibold">This is not what was proposed: people changed the call.</p>
      <ol className="list-disc pl-5">
        {approval.edits.map((edit) => (
          <li key={edit.isDigest}>
            <Untrusted text={edit.user} className="font-semibold" /> by {edit.surface}, <Time at={edit.at} />
            {edit.reason !== "" && (
              <>
                : “<Untrusted text={edit.reason} />”
              </>
            )}{" "}
            <span className="inline-flex flex-wrap items-center gap-1 text-sm">
              <Id id={edit.wasDigest} /> → <Id id={edit.isDigest} />
            </span>
          </li>
        ))}
      </ol>
      {waits(approval) && (
        <p>
          Votes before the last change fell. {approval.votes.length === 0 && "Nobody has answered what it is now. "}Needed now: <Untrusted text={needsOf(approval)} />
        </p>
      )}
    </Notice>
  );
}
