import { useState } from "react";
import { failure } from "../../api/errors";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope } from "../../gen/palyra/v1/approvals_pb";
import { oneLine } from "../../text/visible";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { TextArea } from "../../ui/Field";
import { ErrorState, Loading, Notice } from "../../ui/State";
import { useArmed } from "./armed";
import type { Choice } from "./decide";
import { conflict, isPending } from "./decide";
import { useVote } from "./Decision";
import { ApprovalHeader, useApproval } from "./ApprovalDetail";
import { Evidence } from "./Evidence";
import { requiresPresence } from "./presence";
import { headline } from "./words";

interface ReviewedApproval {
  approval: Approval;
  /** Undefined if the approval stays pending. */
  choice: Choice | undefined;
  result?: string;
}

/**
 * A review of several approvals, one after the other. Each is displayed in full before it is
 * answered, and nothing is sent before all are reviewed. A vote is for the displayed digest.
 */
export function BatchReview({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) {
  const [reviewed, setReviewed] = useState<readonly ReviewedApproval[]>([]);
  const id = ids[reviewed.length];
  return (
    <Dialog wide open onClose={onClose} title={id === undefined ? "Your answers" : `Approval ${reviewed.length + 1} of ${ids.length}`}>
      {id === undefined ? (
        <SendVotes reviewed={reviewed} onBack={() => setReviewed(reviewed.slice(0, -1))} onClose={onClose} />
      ) : (
        <ReviewStep key={id} id={id} onBack={reviewed.length === 0 ? undefined : () => setReviewed(reviewed.slice(0, -1))} onNext={(one) => setReviewed([...reviewed, one])} />
      )}
    </Dialog>
  );
}

function ReviewStep({ id, onBack, onNext }: { id: string; onBack: (() => void) | undefined; onNext: (one: ReviewedApproval) => void }) {
  const query = useApproval(id);
  const [reason, setReason] = useState("");
  const approval = query.data;
  const armed = useArmed(approval === undefined ? "" : `${approval.callDigest} ${approval.version}`);
  if (approval === undefined) return query.isError ? <ErrorState error={query.error} /> : <Loading what="the approval" />;
  const armingProblem = armed ? undefined : "Wait a moment: the approval has just appeared or changed.";
  const permissionProblem = approval.you?.mayDecide === false ? approval.you.message || "You cannot answer this approval." : undefined;
  const stateProblem = isPending(approval) ? undefined : "The approval is no longer pending.";
  const disabledReason = stateProblem ?? permissionProblem ?? armingProblem;
  // A passkey signs one answer at a time, on the page that displays the call.
  const presenceProblem = requiresPresence(approval, true) ? "An approval requires your passkey: answer it on its own page." : undefined;
  return (
    <div className="flex flex-col gap-4">
      <ApprovalHeader approval={approval} />
      <Evidence approval={approval} />
      <div className="sticky bottom-0 flex flex-col gap-2 border-t border-line bg-page pt-3">
        <TextArea label="Reason for a denial (displayed to the requester)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
        <div className="flex flex-wrap gap-2">
          <Button
            variant="good"
            disabledReason={disabledReason ?? presenceProblem}
            onClick={() => onNext({ approval, choice: { allow: true, offer: approval.prompt?.scopes.find((o) => o.scope === ApprovalScope.ONCE), ttl: 0, uses: 0 } })}
          >
            Allow once
          </Button>
          <Button variant="bad" disabledReason={disabledReason ?? (reason.trim() === "" ? "Enter a reason for the requester." : undefined)} onClick={() => onNext({ approval, choice: { allow: false, reason } })}>
                      Deny
          </Button>
          <Button onClick={() => onNext({ approval, choice: undefined })}>Keep pending</Button>
          {onBack !== undefined && (
            <Button variant="bare" onClick={onBack}>
              ← Previous
            </Button>
          )}
        </div>
        <p className="text-sm text-quiet">Nothing is sent before you have reviewed all of them.</p>
      </div>
    </div>
  );
}

function SendVotes({ reviewed, onBack, onClose }: { reviewed: readonly ReviewedApproval[]; onBack: () => void; onClose: () => void }) {
  const vote = useVote();
  const [results, setResults] = useState<ReadonlyMap<string, { good: boolean; text: string }>>(new Map());
  const [isSending, setIsSending] = useState(false);
  const armed = useArmed("send");
  const votes = reviewed.filter((one) => one.choice !== undefined);
  const isDone = results.size > 0 && !isSending;
  const send = async () => {
    setIsSending(true);
    for (const { approval, choice } of reviewed) {
      if (choice === undefined) continue;
      const result = await vote.mutateAsync({ shown: approval, choice }).then(
        () => ({ good: true, text: choice.allow ? "Your approval is recorded." : "Your denial is recorded." }),
        (thrown: unknown) => ({ good: false, text: conflict(thrown, undefined) ?? failure(thrown).message }),
      );
      setResults((now) => new Map(now).set(approval.approvalId, result));
    }
    setIsSending(false);
  };
  return (
    <div className="flex flex-col gap-3">
      <ul className="flex flex-col gap-2">
        {reviewed.map(({ approval, choice }) => {
          const result = results.get(approval.approvalId);
          return (
            <li key={approval.approvalId} className="flex flex-wrap items-center gap-2 rounded-lg border border-line px-3 py-2">
              <Badge tone={choice === undefined ? "plain" : choice.allow ? "good" : "bad"}>{choice === undefined ? "pending" : choice.allow ? "allow once" : "deny"}</Badge>
              <span className="min-w-0 flex-1 truncate font-mono">{oneLine(headline(approval), 120)}</span>
              {choice?.allow === false && <span className="w-full text-sm text-quiet">“{oneLine(choice.reason, 200)}”</span>}
              {result !== undefined && <span className={`w-full text-sm ${result.good ? "text-good" : "text-bad"}`}>{result.text}</span>}
            </li>
          );
        })}
      </ul>
      <div role="status" aria-live="polite">
        {isDone && <Notice tone={[...results.values()].every((r) => r.good) ? "good" : "warn"}>{[...results.values()].filter((r) => r.good).length} of {votes.length} votes recorded.</Notice>}
      </div>
      <div className="flex flex-wrap justify-end gap-2">
        {!isDone && !isSending && (
          <Button onClick={onBack}>← Previous</Button>
        )}
        {isDone ? (
          <Button variant="primary" onClick={onClose}>
            Done
          </Button>
        ) : (
          <Button variant="primary" disabledReason={votes.length === 0 ? "All approvals stay pending." : isSending ? "In progress." : armed ? undefined : "Wait a moment."} onClick={() => void send()}>
            Send {votes.length} {votes.length === 1 ? "vote" : "votes"}
          </Button>
        )}
      </div>
    </div>
  );
}
