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
import { conflict, waits } from "./decide";
import { useVote } from "./Decide";
import { Head, useApproval } from "./Detail";
import { Evidence } from "./Evidence";
import { presenceWanted } from "./presence";
import { headline } from "./words";

interface Reviewed {
  shown: Approval;
  /** Undefined leaves it pending. */
  choice: Choice | undefined;
  result?: string;
}

/**
 * Several asks, one after the other: each is shown whole before it has an answer, and
 * nothing is sent before all were seen. Each vote is on the digest that was shown.
 */
export function BatchReview({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) {
  const [reviewed, setReviewed] = useState<readonly Reviewed[]>([]);
  const id = ids[reviewed.length];
  return (
    <Dialog wide open onClose={onClose} title={id === undefined ? "Your answers" : `Ask ${reviewed.length + 1} of ${ids.length}`}>
      {id === undefined ? (
        <Send reviewed={reviewed} onBack={() => setReviewed(reviewed.slice(0, -1))} onClose={onClose} />
      ) : (
        <One key={id} id={id} onBack={reviewed.length === 0 ? undefined : () => setReviewed(reviewed.slice(0, -1))} onNext={(one) => setReviewed([...reviewed, one])} />
      )}
    </Dialog>
  );
}

function One({ id, onBack, onNext }: { id: string; onBack: (() => void) | undefined; onNext: (one: Reviewed) => void }) {
  const query = useApproval(id);
  const [reason, setReason] = useState("");
  const approval = query.data;
  const armed = useArmed(approval === undefined ? "" : `${approval.callDigest} ${approval.version}`);
  if (approval === undefined) return query.isError ? <ErrorState error={query.error} /> : <Loading what="the ask" />;
  const wait = armed ? undefined : "In a moment: it has just appeared or changed.";
  const may = approval.you?.mayDecide === false ? approval.you.message || "You cannot answer this one." : undefined;
  const gone = waits(approval) ? undefined : "It does not wait any more.";
  const off = gone ?? may ?? wait;
  // A passkey is asked for one answer at a time, in front of what it signs.
  const alone = presenceWanted(approval, true) ? "A yes takes your passkey: answer this one on its own page." : undefined;
  return (
    <div className="flex flex-col gap-4">
      <Head approval={approval} />
      <Evidence approval={approval} />
      <div className="sticky bottom-0 flex flex-col gap-2 border-t border-line bg-page pt-3">
        <TextArea label="Reason for a no (the requester reads it)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
        <div className="flex flex-wrap gap-2">
          <Button
            look="good"
            off={off ?? alone}
            onClick={() => onNext({ shown: approval, choice: { allow: true, offer: approval.prompt?.scopes.find((o) => o.scope === ApprovalScope.ONCE), ttl: 0, uses: 0 } })}
          >
            Yes, once
          </Button>
          <Button look="bad" off={off ?? (reason.trim() === "" ? "Give a reason: the requester reads it." : undefined)} onClick={() => onNext({ shown: approval, choice: { allow: false, reason } })}>
            No
          </Button>
          <Button onClick={() => onNext({ shown: approval, choice: undefined })}>Leave it pending</Button>
          {onBack !== undefined && (
            <Button look="bare" onClick={onBack}>
              ← The one before
            </Button>
          )}
        </div>
        <p className="text-sm text-quiet">Nothing is sent before you have seen all of them.</p>
      </div>
    </div>
  );
}

function Send({ reviewed, onBack, onClose }: { reviewed: readonly Reviewed[]; onBack: () => void; onClose: () => void }) {
  const vote = useVote();
  const [results, setResults] = useState<ReadonlyMap<string, { good: boolean; text: string }>>(new Map());
  const [busy, setBusy] = useState(false);
  const armed = useArmed("send");
  const votes = reviewed.filter((one) => one.choice !== undefined);
  const done = results.size > 0 && !busy;
  const send = async () => {
    setBusy(true);
    for (const { shown, choice } of reviewed) {
      if (choice === undefined) continue;
      const result = await vote.mutateAsync({ shown, choice }).then(
        () => ({ good: true, text: choice.allow ? "Your yes is recorded." : "Your no is recorded." }),
        (thrown: unknown) => ({ good: false, text: conflict(thrown, undefined) ?? failure(thrown).message }),
      );
      setResults((now) => new Map(now).set(shown.approvalId, result));
    }
    setBusy(false);
  };
  return (
    <div className="flex flex-col gap-3">
      <ul className="flex flex-col gap-2">
        {reviewed.map(({ shown, choice }) => {
          const result = results.get(shown.approvalId);
          return (
            <li key={shown.approvalId} className="flex flex-wrap items-center gap-2 rounded-lg border border-line px-3 py-2">
              <Badge tone={choice === undefined ? "plain" : choice.allow ? "good" : "bad"}>{choice === undefined ? "pending" : choice.allow ? "yes, once" : "no"}</Badge>
              <span className="min-w-0 flex-1 truncate font-mono">{oneLine(headline(shown), 120)}</span>
              {choice?.allow === false && <span className="w-full text-sm text-quiet">“{oneLine(choice.reason, 200)}”</span>}
              {result !== undefined && <span className={`w-full text-sm ${result.good ? "text-good" : "text-bad"}`}>{result.text}</span>}
            </li>
          );
        })}
      </ul>
      <div role="status" aria-live="polite">
        {done && <Notice tone={[...results.values()].every((r) => r.good) ? "good" : "warn"}>{[...results.values()].filter((r) => r.good).length} of {votes.length} votes are recorded.</Notice>}
      </div>
      <div className="flex flex-wrap justify-end gap-2">
        {!done && !busy && (
          <Button onClick={onBack}>← The one before</Button>
        )}
        {done ? (
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        ) : (
          <Button look="primary" off={votes.length === 0 ? "You left all of them pending." : busy ? "On its way." : armed ? undefined : "In a moment."} onClick={() => void send()}>
            Send {votes.length} {votes.length === 1 ? "vote" : "votes"}
          </Button>
        )}
      </div>
    </div>
  );
}
