import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { Id } from "../../ui/Copy";
import { Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { isPending } from "./decide";
import { describeMissingVotes } from "./MissingVotes";

/** The edits of the call, with their authors and reasons, and the effect on votes. */
export function Edits({ approval }: { approval: Approval }) {
  if (approval.edits.length === 0) return null;
  return (
    <Notice tone="warn">
      <p className="font-semibold">This call differs from the proposal: it was edited.</p>
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
      {isPending(approval) && (
        <p>
          Votes from before the last edit do not count. {approval.votes.length === 0 && "The edited call has no votes. "}Still required: <Untrusted text={describeMissingVotes(approval)} />
        </p>
      )}
    </Notice>
  );
}
