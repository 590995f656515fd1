import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useEffect, useRef, useState } from "react";
import { failure } from "../../api/errors";
import { prove } from "../../api/passkey";
import { client } from "../../api/transport";
import { useCan, useWhoami } from "../../api/whoami";
import type { Approval, ApprovalScopeOffer } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalState, ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { announce } from "../../shell/announce";
import { useKeys } from "../../shell/keys";
import { sentence } from "../../text/sentence";
import { durationMillis, toMillis } from "../../text/time";
import { Button } from "../../ui/Button";
import { useNow } from "../../ui/clock";
import { CopyAsCli } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Select, TextArea, TextField } from "../../ui/Field";
import { ErrorState, Notice } from "../../ui/State";
import { Countdown } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { useArmed } from "./armed";
import { prefillFor } from "./prefill";
import type { Choice } from "./decide";
import { commandOf, conflict, coverageOf, defaultTtl, labelOf, offerName, durationsUpTo, voteOf, isPending } from "./decide";
import { EditDialog } from "./EditDialog";
import { describeMissingVotes } from "./MissingVotes";
import { PresenceNotice, useProofAvailability } from "./PresenceNotice";
import { canProveLater, requiresPresence, acceptsVoteWithoutProof } from "./presence";
import { headline, states, nameOf } from "./words";

/** Casts a vote and stores the gateway's response in the cache, so that the page displays the recorded state. */
export function useVote() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ shown, choice, present = false }: { shown: Approval; choice: Choice; present?: boolean }) => {
      const vote = voteOf(shown, choice);
      const { approval } = await client(ApprovalsService).decideApproval({ ...vote, ...(present ? { passkey: await prove({ case: "vote", value: vote }) } : {}) });
      if (approval === undefined) throw new Error("The gateway sent no approval.");
      return approval;
    },
    onSuccess: (approval) => {
      // The response lacks the caller's own eligibility (you): keep the old value until the refetch.
      queries.setQueryData<Approval>(["approval", approval.approvalId], (old) => (old === undefined ? approval : { ...approval, ...(old.you === undefined ? {} : { you: old.you }) }));
      void queries.invalidateQueries({ queryKey: ["approval", approval.approvalId] });
    },
    onError: (_, { shown }) => queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] }),
  });
}

/** The decision on an approval: the scopes and the buttons. */
export function Decision({ approval, stale }: { approval: Approval; stale: unknown }) {
  const vote = useVote();
  const me = useWhoami();
  const now = useNow();
  const isClosed = !isPending(approval) || (toMillis(approval.expiresAt) ?? Infinity) <= now;
  const conflictMessage = vote.isError ? conflict(vote.error, approval) : undefined;
  const mine = approval.votes.find((v) => v.user === me?.principal);
  const canRepeat = canProveLater(approval, me?.principal);
  const proof = useProofAvailability(approval);
  const [editing, setEditing] = useState<Approval | undefined>(undefined);
  const needsPasskey = (choice: Choice) => proof?.can === true && requiresPresence(approval, choice.allow);
  const decisionRef = useRef<HTMLElement>(null);
  // On a phone the decision is below the evidence, with a link to it at the bottom of the screen.
  return (
    <>
      {!isClosed && (
        <div className="sticky bottom-0 -mx-3 flex items-center justify-between gap-2 border-t border-line bg-page px-3 py-2 sm:hidden">
          <Countdown until={approval.expiresAt} />
          <Button size="small" variant="primary" onClick={() => decisionRef.current?.scrollIntoView()}>
            Go to the decision
          </Button>
        </div>
      )}
    <section
      ref={decisionRef}
      aria-label="Decision"
      className="-mx-3 flex flex-col gap-2 border-t-2 border-edge bg-page px-3 pt-2 pb-3 sm:sticky sm:bottom-0 sm:-mx-5 sm:max-h-[60dvh] sm:overflow-y-auto sm:px-5"
    >
      <div role="status" aria-live="polite" className="flex flex-col gap-2">
        {vote.isPending && (
          <Notice>{vote.variables.present === true ? "The browser asks for your passkey; then your vote is sent…" : "Sent. Waiting for the gateway…"}</Notice>
        )}
        {vote.isSuccess && <RecordedVote approval={vote.data} />}
        {conflictMessage !== undefined && <Notice tone="bad">{conflictMessage}</Notice>}
        {vote.isError && conflictMessage === undefined && <ErrorState error={vote.error} />}
        {stale !== undefined && <Notice tone="warn">This may be out of date: {failure(stale).message}</Notice>}
      </div>
      {isClosed ? (
        <FinalState approval={approval} />
      ) : mine !== undefined && !canRepeat ? (
        <Notice tone="good">
          You {mine.allow ? "approved" : "denied"} this. Still required: <Untrusted text={describeMissingVotes(approval)} />
        </Notice>
      ) : (
        <Eligibility approval={approval} canRepeat={canRepeat}>
          {canRepeat && <Notice tone="warn">You approved this without a proof of presence. Approve it again with your passkey to replace the first vote.</Notice>}
          <PresenceNotice approval={approval} proof={proof} />
          <VoteForm approval={approval} isSending={vote.isPending} needsPasskey={needsPasskey} canRepeat={canRepeat} onEdit={() => setEditing(approval)} onVote={(choice) => vote.mutate({ shown: approval, choice, present: needsPasskey(choice) })} />
        </Eligibility>
      )}
      {editing !== undefined && <EditDialog shown={editing} now={approval} onClose={() => setEditing(undefined)} />}
    </section>
    </>
  );
}

function RecordedVote({ approval }: { approval: Approval }) {
  const last = approval.votes.at(-1);
  const state = nameOf(states, approval.state);
  return (
    <Notice tone={last?.allow === false ? "bad" : "good"}>
      The gateway recorded your {last?.allow === false ? "denial" : "approval"}. The state is now {state}
      {isPending(approval) ? <>. Still required: <Untrusted text={describeMissingVotes(approval)} /></> : "."}
    </Notice>
  );
}

function FinalState({ approval }: { approval: Approval }) {
  const last = approval.votes.at(-1);
  const state = nameOf(states, approval.state);
  return (
    <Notice tone={approval.state === ApprovalState.ALLOWED || approval.state === ApprovalState.CONSUMED ? "good" : "warn"}>
      {isPending(approval) ? "The approval has expired." : `The approval is ${state}`}
      {!isPending(approval) && last !== undefined && (
        <>
          , decided by <Untrusted text={last.user} />
        </>
      )}
      {!isPending(approval) && "."} It can no longer be answered.
    </Notice>
  );
}

/** Explains why the caller cannot answer, instead of the buttons. */
function Eligibility({ approval, canRepeat, children }: { approval: Approval; canRepeat: boolean; children: ReactNode }) {
  const can = useCan("approval.decide");
  const you = approval.you;
  // A second vote is allowed only if it adds the proof of presence.
  if (canRepeat && you?.voted === true) return children;
  if (you?.own === true && !you.mayDecide) {
    return (
      <Notice tone="warn">
        <p className="font-semibold">{approval.edits.length === 0 ? "This is your own call: another member must answer it." : "You changed this call, or it is your own: another member must answer it."}</p>
        <p>
          <Untrusted text={sentence(you.message)} /> <Untrusted text={you.remedy} />
        </p>
      </Notice>
    );
  }
  if (you !== undefined && !you.mayDecide && !you.withPresence) {
    return (
      <Notice tone="warn">
        <p className="font-semibold">
          <Untrusted text={you.message === "" ? "You cannot answer this approval." : you.message} />
        </p>
        {you.permission !== "" && <p>This requires the permission {you.permission}.</p>}
        <p>
          <Untrusted text={you.remedy} />
        </p>
      </Notice>
    );
  }
  if (!can) return <Notice tone="warn">You lack the permission approval.decide: you can read this approval but not answer it.</Notice>;
  return children;
}

/** The form with the scope, the reason and the buttons. */
function VoteForm({ approval, isSending, needsPasskey, canRepeat, onEdit, onVote }: {
  approval: Approval;
  isSending: boolean;
  /** Whether a choice requires a passkey. */
  needsPasskey: (choice: Choice) => boolean;
  /** Whether the caller has already approved without a proof of presence. */
  canRepeat: boolean;
  onEdit: () => void;
  onVote: (choice: Choice) => void;
}) {
  const offers = approval.prompt?.scopes ?? [];
  const [prefill] = useState(() => prefillFor(approval, sessionStorage.getItem("palyra.answer")));
  useEffect(() => sessionStorage.removeItem("palyra.answer"), []);
  const [at, setAt] = useState(prefill.at);
  const offer = offers[at] ?? offers[0];
  const [ttl, setTtl] = useState(prefill.ttl);
  const [uses, setUses] = useState(prefill.uses);
  const [reason, setReason] = useState(prefill.reason);
  const [isConfirming, setIsConfirming] = useState(false);
  const denial = useRef<HTMLTextAreaElement>(null);
  const armed = useArmed(`${approval.callDigest} ${approval.version} ${isConfirming}`);
  const createsGrant = offer !== undefined && offer.scope !== ApprovalScope.ONCE;
  const isTimeboxed = offer?.scope === ApprovalScope.TIMEBOXED;
  const canUseScope = useCan(offer?.permission === "" ? undefined : offer?.permission);

  const allow: Choice = { allow: true, offer, ttl, uses: Number(uses) };
  const deny: Choice = { allow: false, reason };
  const waitReason = isSending ? "Your vote is being sent." : armed ? undefined : "Wait a moment: the approval has just appeared or changed.";
  const usesProblem = uses === "" || (/^\d+$/.test(uses) && Number(uses) >= 1 && Number(uses) <= 1000) ? undefined : "Enter a number from 1 to 1000, or leave the field empty for no limit.";
  const proofProblem = (choice: Choice) => ((acceptsVoteWithoutProof(approval) && !canRepeat) || needsPasskey(choice) ? undefined : "This requires a passkey.");
  const allowDisabledReason = waitReason ?? proofProblem(allow) ?? (canUseScope ? usesProblem : `This requires the permission ${offer?.permission ?? ""}.`);
  const denyDisabledReason = waitReason ?? (canRepeat ? "You have already approved this." : proofProblem(deny)) ?? (reason.trim() === "" ? "Enter a reason for the requester." : undefined);
  useKeys([
    { key: "a", description: "Allow (with a confirmation)", run: () => setIsConfirming(true) },
    { key: "e", description: "Edit the call before the approval", run: onEdit },
    { key: "d", description: "Deny: enter the reason", run: () => denial.current?.focus() },
  ]);
  const choose = (i: number) => {
    setAt(i);
    setTtl(defaultTtl(offers[i]));
  };
  const send = (choice: Choice) => {
    setIsConfirming(false);
    announce(needsPasskey(choice) ? "The browser asks for your passkey." : "Your vote is sent.");
    onVote(choice);
  };
  return (
    <>
      <p className="max-h-16 shrink-0 overflow-y-auto font-mono font-semibold wrap-anywhere whitespace-pre-wrap" tabIndex={0}>
        <Untrusted text={headline(approval)} />
      </p>
      <div className="grid gap-x-3 gap-y-2 sm:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-2">
          <div className="grid grid-cols-2 gap-2">
            <div className={createsGrant ? (isTimeboxed ? "col-span-2" : "") : "col-span-2"}>
              <Select label="Scope of the approval" value={String(at)} options={offers.map((o, i) => ({ value: String(i), label: offerName(o) }))} onChange={(event) => choose(Number(event.target.value))} />
            </div>
            {isTimeboxed && <Select label="For" value={String(ttl)} options={durationsUpTo(durationMillis(offer.longest))} onChange={(event) => setTtl(Number(event.target.value))} />}
            {createsGrant && <TextField label="Maximum number of calls" inputMode="numeric" value={uses} hint={usesProblem} onChange={(event) => setUses(event.target.value)} />}
          </div>
          {offer !== undefined && (
            <p className="text-sm text-quiet">
              <Coverage offer={offer} ttl={ttl} />
            </p>
          )}
        </div>
        <TextArea ref={denial} label="Reason for a denial (displayed to the requester)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
      <div className="flex flex-wrap items-center gap-2" data-armed={armed}>
        <Button variant="good" disabledReason={allowDisabledReason} onClick={() => send(allow)}>
          {labelOf(allow)}
          {needsPasskey(allow) && ", with passkey"}
        </Button>
        <Button variant="bad" disabledReason={denyDisabledReason} onClick={() => send(deny)}>
          Deny{needsPasskey(deny) && ", with passkey"}
        </Button>
        <Button disabledReason={canRepeat ? "You have already approved this." : undefined} onClick={onEdit}>
          Edit, then approve
        </Button>
        <Countdown until={approval.expiresAt} />
        <span className="ml-auto">
          <CopyAsCli command={commandOf(approval, reason.trim() === "" ? allow : deny, requiresPresence(approval, reason.trim() === ""))} />
        </span>
      </div>
      <p className="text-sm text-quiet">
        An approval runs the waiting call. If you leave this page, the approval stays pending until it is answered or expires.
      </p>
      <Dialog open={isConfirming} onClose={() => setIsConfirming(false)} title={`${labelOf(allow)}?`}>
        <div className="flex flex-col gap-3">
          <p className="max-h-60 overflow-y-auto rounded border border-line bg-panel p-2 font-mono break-all whitespace-pre-wrap" tabIndex={0}>
            <Untrusted text={headline(approval)} />
          </p>
          <p>
            <Untrusted text={offer === undefined ? "This call only." : coverageOf(offer, ttl)} />
          </p>
          <div className="flex justify-end gap-2">
            <Button onClick={() => setIsConfirming(false)}>Back</Button>
            <Button variant="good" autoFocus disabledReason={allowDisabledReason} onClick={() => send(allow)}>
              {labelOf(allow)}
              {needsPasskey(allow) && ", with passkey"}
            </Button>
          </div>
        </div>
      </Dialog>
    </>
  );
}

/** The exact coverage of a scope, and the calls that it would have covered. */
export function Coverage({ offer, ttl }: { offer: ApprovalScopeOffer; ttl?: number }) {
  const can = useCan(offer.permission === "" ? undefined : offer.permission);
  return (
    <>
      <Untrusted text={coverageOf(offer, ttl)} />
      {offer.scope !== ApprovalScope.ONCE && <span className="whitespace-nowrap"> · would have covered {Number(offer.coveredLastWeek).toLocaleString()} in the last 7 days</span>}
      {!can && <span> · requires the permission {offer.permission}</span>}
    </>
  );
}
