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
import { durationMs, ms } from "../../text/time";
import { Button } from "../../ui/Button";
import { useNow } from "../../ui/clock";
import { CopyAsCli } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Select, TextArea, TextField } from "../../ui/Field";
import { ErrorState, Notice } from "../../ui/State";
import { Countdown } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { useArmed } from "./armed";
import { askedOf } from "./asked";
import type { Choice } from "./decide";
import { commandOf, conflict, coversOf, defaultTtl, labelOf, offerName, timesUpTo, voteOf, waits } from "./decide";
import { EditDialog } from "./Edit";
import { needsOf } from "./Needs";
import { PresenceNotice, useMeans } from "./Presence";
import { mayProveLater, presenceWanted, takenWithout } from "./presence";
import { headline, states, word } from "./words";

/** Casts a vote and puts the gateway's word in the cache: what is shown after it is what it said. */
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
      // Others see what only the caller does: how the caller stands is asked for anew.
      queries.setQueryData<Approval>(["approval", approval.approvalId], (old) => (old === undefined ? approval : { ...approval, ...(old.you === undefined ? {} : { you: old.you }) }));
      void queries.invalidateQueries({ queryKey: ["approval", approval.approvalId] });
    },
    onError: (_, { shown }) => queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] }),
  });
}

/** The answer to an ask: what it would cover, and the buttons, once they are armed. */
export function Decide({ approval, stale }: { approval: Approval; stale: unknown }) {
  const vote = useVote();
  const me = useWhoami();
  const now = useNow();
  const over = !waits(approval) || (ms(approval.expiresAt) ?? Infinity) <= now;
  const said = vote.isError ? conflict(vote.error, approval) : undefined;
  const mine = approval.votes.find((v) => v.user === me?.principal);
  const later = mayProveLater(approval, me?.principal);
  const means = useMeans(approval);
  const [editing, setEditing] = useState<Approval | undefined>(undefined);
  const proving = (choice: Choice) => means?.can === true && presenceWanted(approval, choice.allow);
  const place = useRef<HTMLElement>(null);
  // On a phone the answer stands below what is answered, which would have no room beside it.
  return (
    <>
      {!over && (
        <div className="sticky bottom-0 -mx-3 flex items-center justify-between gap-2 border-t border-line bg-page px-3 py-2 sm:hidden">
          <Countdown until={approval.expiresAt} />
          <Button size="small" look="primary" onClick={() => place.current?.scrollIntoView()}>
            To the answer
          </Button>
        </div>
      )}
    <section
      ref={place}
      aria-label="Decision"
      className="-mx-3 flex flex-col gap-2 border-t-2 border-edge bg-page px-3 pt-2 pb-3 sm:sticky sm:bottom-0 sm:-mx-5 sm:max-h-[60dvh] sm:overflow-y-auto sm:px-5"
    >
      <div role="status" aria-live="polite" className="flex flex-col gap-2">
        {vote.isPending && (
          <Notice>{vote.variables.present === true ? "The browser asks for your passkey; then your answer is sent…" : "Sent. Waiting for the gateway to say what became of it…"}</Notice>
        )}
        {vote.isSuccess && <Echo approval={vote.data} />}
        {said !== undefined && <Notice tone="bad">{said}</Notice>}
        {vote.isError && said === undefined && <ErrorState error={vote.error} />}
        {stale !== undefined && <Notice tone="warn">This may be out of date: {failure(stale).message}</Notice>}
      </div>
      {over ? (
        <Over approval={approval} />
      ) : mine !== undefined && !later ? (
        <Notice tone="good">
          You said {mine.allow ? "yes" : "no"}. It waits for others: <Untrusted text={needsOf(approval)} />
        </Notice>
      ) : (
        <Standing approval={approval} again={later}>
          {later && <Notice tone="warn">You said yes without proving that you are there. Say it again with your passkey: it takes the place of the first.</Notice>}
          <PresenceNotice approval={approval} means={means} />
          <Form approval={approval} busy={vote.isPending} proving={proving} again={later} onEdit={() => setEditing(approval)} onVote={(choice) => vote.mutate({ shown: approval, choice, present: proving(choice) })} />
        </Standing>
      )}
      {editing !== undefined && <EditDialog shown={editing} now={approval} onClose={() => setEditing(undefined)} />}
    </section>
    </>
  );
}

function Echo({ approval }: { approval: Approval }) {
  const last = approval.votes.at(-1);
  const state = word(states, approval.state);
  return (
    <Notice tone={last?.allow === false ? "bad" : "good"}>
      The gateway recorded your {last?.allow === false ? "no" : "yes"}: the ask is {state}
      {waits(approval) ? <>. Still needed: <Untrusted text={needsOf(approval)} /></> : "."}
    </Notice>
  );
}

function Over({ approval }: { approval: Approval }) {
  const last = approval.votes.at(-1);
  const state = word(states, approval.state);
  return (
    <Notice tone={approval.state === ApprovalState.ALLOWED || approval.state === ApprovalState.CONSUMED ? "good" : "warn"}>
      {waits(approval) ? "Its time is over." : `It is ${state}`}
      {!waits(approval) && last !== undefined && (
        <>
          , decided by <Untrusted text={last.user} />
        </>
      )}
      {!waits(approval) && "."} There is nothing to decide any more.
    </Notice>
  );
}

/** Says before the buttons what an answer of the caller would meet. */
function Standing({ approval, again, children }: { approval: Approval; again: boolean; children: ReactNode }) {
  const can = useCan("approval.decide");
  const you = approval.you;
  // A plain vote would be one too many; the same with a proof is not.
  if (again && you?.voted === true) return children;
  if (you?.own === true && !you.mayDecide) {
    return (
      <Notice tone="warn">
        <p className="font-semibold">{approval.edits.length === 0 ? "This is your own call, so somebody else answers it." : "You changed this call, or it is your own: somebody else answers it."}</p>
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
          <Untrusted text={you.message === "" ? "You cannot answer this." : you.message} />
        </p>
        {you.permission !== "" && <p>It takes the permission {you.permission}.</p>}
        <p>
          <Untrusted text={you.remedy} />
        </p>
      </Notice>
    );
  }
  if (!can) return <Notice tone="warn">You lack the permission approval.decide: you can read this and not answer it.</Notice>;
  return children;
}

/** The choice and its buttons. */
function Form({ approval, busy, proving, again, onEdit, onVote }: {
  approval: Approval;
  busy: boolean;
  /** Whether an answer asks for a passkey first. */
  proving: (choice: Choice) => boolean;
  /** The caller said yes before, without a proof. */
  again: boolean;
  onEdit: () => void;
  onVote: (choice: Choice) => void;
}) {
  const offers = approval.prompt?.scopes ?? [];
  const [asked] = useState(() => askedOf(approval, sessionStorage.getItem("palyra.answer")));
  useEffect(() => sessionStorage.removeItem("palyra.answer"), []);
  const [at, setAt] = useState(asked.at);
  const offer = offers[at] ?? offers[0];
  const [ttl, setTtl] = useState(asked.ttl);
  const [uses, setUses] = useState(asked.uses);
  const [reason, setReason] = useState(asked.reason);
  const [asking, setAsking] = useState(false);
  const denial = useRef<HTMLTextAreaElement>(null);
  const armed = useArmed(`${approval.callDigest} ${approval.version} ${asking}`);
  const standing = offer !== undefined && offer.scope !== ApprovalScope.ONCE;
  const timed = offer?.scope === ApprovalScope.TIMEBOXED;
  const broad = useCan(offer?.permission === "" ? undefined : offer?.permission);

  const allow: Choice = { allow: true, offer, ttl, uses: Number(uses) };
  const deny: Choice = { allow: false, reason };
  const wait = busy ? "Your vote is on its way." : armed ? undefined : "In a moment: it has just appeared or changed.";
  const badUses = uses === "" || (/^\d+$/.test(uses) && Number(uses) >= 1 && Number(uses) <= 1000) ? undefined : "A number from 1 to 1000, or nothing for no limit.";
  const unproved = (choice: Choice) => ((takenWithout(approval) && !again) || proving(choice) ? undefined : "It takes a passkey.");
  const offAllow = wait ?? unproved(allow) ?? (broad ? badUses : `It takes the permission ${offer?.permission ?? ""}.`);
  const offDeny = wait ?? (again ? "You said yes already." : unproved(deny)) ?? (reason.trim() === "" ? "Give a reason: the requester reads it." : undefined);
  useKeys([
    { key: "a", says: "Allow (asks to confirm)", run: () => setAsking(true) },
    { key: "e", says: "Edit the call, then approve it", run: onEdit },
    { key: "d", says: "Deny: write the reason", run: () => denial.current?.focus() },
  ]);
  const choose = (i: number) => {
    setAt(i);
    setTtl(defaultTtl(offers[i]));
  };
  const send = (choice: Choice) => {
    setAsking(false);
    announce(proving(choice) ? "The browser asks for your passkey." : "Your vote is sent.");
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
            <div className={standing ? (timed ? "col-span-2" : "") : "col-span-2"}>
              <Select label="A yes covers" value={String(at)} options={offers.map((o, i) => ({ value: String(i), label: offerName(o) }))} onChange={(event) => choose(Number(event.target.value))} />
            </div>
            {timed && <Select label="For" value={String(ttl)} options={timesUpTo(durationMs(offer.longest))} onChange={(event) => setTtl(Number(event.target.value))} />}
            {standing && <TextField label="At most so many calls" inputMode="numeric" value={uses} hint={badUses} onChange={(event) => setUses(event.target.value)} />}
          </div>
          {offer !== undefined && (
            <p className="text-sm text-quiet">
              <OfferText offer={offer} ttl={ttl} />
            </p>
          )}
        </div>
        <TextArea ref={denial} label="Reason for a no (the requester reads it)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
      <div className="flex flex-wrap items-center gap-2" data-armed={armed}>
        <Button look="good" off={offAllow} onClick={() => send(allow)}>
          {labelOf(allow)}
          {proving(allow) && ", with passkey"}
        </Button>
        <Button look="bad" off={offDeny} onClick={() => send(deny)}>
          Deny{proving(deny) && ", with passkey"}
        </Button>
        <Button off={again ? "You said yes already." : undefined} onClick={onEdit}>
          Edit, then approve
        </Button>
        <Countdown until={approval.expiresAt} />
        <span className="ml-auto">
          <CopyAsCli command={commandOf(approval, reason.trim() === "" ? allow : deny, presenceWanted(approval, reason.trim() === ""))} />
        </span>
      </div>
      <p className="text-sm text-quiet">
        A yes lets the call run that waits now. To leave decides nothing: it stays pending until it is answered or its time is over.
      </p>
      <Dialog open={asking} onClose={() => setAsking(false)} title={`${labelOf(allow)}?`}>
        <div className="flex flex-col gap-3">
          <p className="max-h-60 overflow-y-auto rounded border border-line bg-panel p-2 font-mono break-all whitespace-pre-wrap" tabIndex={0}>
            <Untrusted text={headline(approval)} />
          </p>
          <p>
            <Untrusted text={offer === undefined ? "This one call." : coversOf(offer, ttl)} />
          </p>
          <div className="flex justify-end gap-2">
            <Button onClick={() => setAsking(false)}>Back</Button>
            <Button look="good" autoFocus off={offAllow} onClick={() => send(allow)}>
              {labelOf(allow)}
              {proving(allow) && ", with passkey"}
            </Button>
          </div>
        </div>
      </Dialog>
    </>
  );
}

/** What a yes would cover, exactly, and would have covered. */
export function OfferText({ offer, ttl }: { offer: ApprovalScopeOffer; ttl?: number }) {
  const can = useCan(offer.permission === "" ? undefined : offer.permission);
  return (
    <>
      <Untrusted text={coversOf(offer, ttl)} />
      {offer.scope !== ApprovalScope.ONCE && <span className="whitespace-nowrap"> · would have covered {Number(offer.coveredLastWeek).toLocaleString()} in the last 7 days</span>}
      {!can && <span> · takes the permission {offer.permission}</span>}
    </>
  );
}
