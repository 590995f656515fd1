import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import { useCan } from "../../api/whoami";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { useKeys } from "../../shell/keys";
import { useGo } from "../../shell/router";
import { useTitle } from "../../shell/title";
import { palyra } from "../../text/cli";
import { oneLine } from "../../text/visible";
import { Badge, Severity } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CopyAsCli } from "../../ui/Copy";
import { ErrorState, Loading } from "../../ui/State";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { Decision } from "./Decision";
import { isPending } from "./decide";
import { Edits } from "./Edits";
import { Evidence } from "./Evidence";
import { MissingVotes } from "./MissingVotes";
import { startDraft } from "../policies/drafts";
import { policyDraftFor } from "./policyDraft";
import { headline, stateTones, states, nameOf } from "./words";

// The number of requests in a week from which the page suggests a policy.
const suggestionThreshold = 3;

/** Queries an approval; the live layer keeps it up to date. */
export function useApproval(id: string) {
  return useQuery({
    queryKey: ["approval", id],
    queryFn: async ({ signal }) => {
      const { approval } = await client(ApprovalsService).getApproval({ approvalId: id }, { signal });
      if (approval === undefined) throw new Error("The gateway sent no approval.");
      return approval;
    },
  });
}

/** The page of an approval: header, evidence and decision. */
export function ApprovalDetail({ id, back }: { id: string; back: string }) {
  const query = useApproval(id);
  const go = useGo();
  const toList = () => go(`/approvals${back === "" ? "" : `?q=${encodeURIComponent(back)}`}`);
  useTitle(query.data === undefined ? "Approval" : oneLine(headline(query.data), 60));
  useKeys([{ key: "u", description: "Back to the list", run: toList }]);
  return (
    <div className="mx-auto flex max-w-4xl flex-col gap-4 p-3 sm:p-5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <Button size="small" onClick={toList}>
          ← All approvals
        </Button>
        <CopyAsCli command={palyra("approvals", "show", id)} />
      </div>
      {query.data !== undefined ? (
        <>
          <ApprovalHeader approval={query.data} />
          <Evidence approval={query.data} />
          <Decision approval={query.data} stale={query.isError ? query.error : undefined} />
        </>
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Loading what="the approval" />
      )}
    </div>
  );
}

/** A button that starts a policy draft for calls that are approved often. */
function PolicySuggestion({ approval }: { approval: Approval }) {
  const go = useGo();
  const can = useCan("policy.check");
  if (!can || Number(approval.prompt?.askedLastWeek ?? 0n) < suggestionThreshold) return null;
  return (
    <p>
      <Button
        size="small"
        onClick={() => {
          startDraft(policyDraftFor(approval));
          go("/policies?tab=write");
        }}
      >
        Write a policy for it
      </Button>
    </p>
  );
}

/** The header of an approval: state, call, requester and missing votes. */
export function ApprovalHeader({ approval }: { approval: Approval }) {
  const state = nameOf(states, approval.state);
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <Severity level={approval.severity} />
        <Badge tone={stateTones[state] ?? "plain"}>{state}</Badge>
        {isPending(approval) && <Countdown until={approval.expiresAt} announce />}
        {approval.runGone && <Badge tone="warn">the requester no longer waits for the answer</Badge>}
      </div>
      <h1 className="rounded-lg border border-line bg-panel px-3 py-2 font-mono text-lg font-semibold break-all whitespace-pre-wrap">
        <Untrusted text={headline(approval)} />
      </h1>
      {approval.prompt !== undefined && approval.prompt.summary !== "" && approval.prompt.summary !== headline(approval) && (
        <p>
          <Untrusted text={approval.prompt.summary} />
        </p>
      )}
      <p className="text-quiet">
        <Untrusted text={approval.requestedBy} className="font-semibold text-ink" />
        {approval.onBehalfOf !== "" && approval.onBehalfOf !== approval.requestedBy && (
          <>
            {" "}
            for <Untrusted text={approval.onBehalfOf} className="font-semibold text-ink" />
          </>
        )}{" "}
        requested this <Time at={approval.createdAt} />
        {Number(approval.prompt?.askedLastWeek ?? 0n) > 0 && `; the same call was requested ${Number(approval.prompt?.askedLastWeek).toLocaleString()} times in the 7 days before`}
      </p>
      <PolicySuggestion approval={approval} />
      {approval.prompt !== undefined && approval.prompt.requesterReason !== "" && (
        <div>
          <p className="text-quiet">The requester's reason (not verified):</p>
          <blockquote className="border-l-2 border-line pl-3 wrap-anywhere whitespace-pre-wrap">
            <Untrusted text={approval.prompt.requesterReason} />
          </blockquote>
        </div>
      )}
      <Edits approval={approval} />
      <MissingVotes approval={approval} />
    </div>
  );
}
