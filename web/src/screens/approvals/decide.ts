import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { failure } from "../../api/errors";
import type { Approval, ApprovalScopeOffer, DecideApprovalRequestSchema } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalState, GrantMatch } from "../../gen/palyra/v1/approvals_pb";
import { palyra } from "../../text/cli";
import { durationMillis, formatDuration } from "../../text/time";
import { matches, scopes, states, nameOf } from "./words";

/** The choice of the user. */
export type Choice = { allow: true; offer: ApprovalScopeOffer | undefined; ttl: number; uses: number } | { allow: false; reason: string };

/** Returns the vote for exactly the displayed call. */
export function voteOf(shown: Approval, choice: Choice): MessageInitShape<typeof DecideApprovalRequestSchema> {
  const common = { approvalId: shown.approvalId, shownDigest: shown.callDigest };
  if (!choice.allow) return { ...common, allow: false, reason: choice.reason.trim() };
  const scope = choice.offer?.scope ?? ApprovalScope.ONCE;
  if (scope === ApprovalScope.ONCE) return { ...common, allow: true, scope };
  return {
    ...common,
    allow: true,
    scope,
    match: choice.offer?.match ?? GrantMatch.EXACT,
    ...(scope === ApprovalScope.TIMEBOXED ? { ttl: durationFromMs(choice.ttl) } : {}),
    ...(choice.uses > 0 ? { uses: BigInt(choice.uses) } : {}),
  };
}

/** Returns the equivalent command, with a proof of presence if required. */
export function commandOf(shown: Approval, choice: Choice, present = false): string {
  const digest = ["--digest", shown.callDigest, ...(present ? ["--present"] : [])];
  if (!choice.allow) return palyra("approvals", "decide", shown.approvalId, "--deny", "--reason", choice.reason.trim() || "why", ...digest);
  const scope = choice.offer?.scope ?? ApprovalScope.ONCE;
  const words = ["approvals", "decide", shown.approvalId, "--allow", nameOf(scopes, scope)];
  if (scope === ApprovalScope.TIMEBOXED) words.push("--for", `${Math.round(choice.ttl / 60_000)}m`);
  if (scope !== ApprovalScope.ONCE) words.push("--match", nameOf(matches, choice.offer?.match ?? GrantMatch.EXACT));
  if (scope !== ApprovalScope.ONCE && choice.uses > 0) words.push("--uses", String(choice.uses));
  return palyra(...words, ...digest);
}

/** Returns the durations to choose from, up to the longest. */
export function durationsUpTo(longest: number): { value: string; label: string }[] {
  const all = [5, 15, 30, 60, 240, 480, 1440, 4320, 10_080].map((minutes) => minutes * 60_000);
  const fitting = all.filter((t) => t <= longest);
  if (longest > 0 && !fitting.includes(longest)) fitting.push(longest);
  return fitting.map((t) => ({ value: String(t), label: formatDuration(t) }));
}

/** Returns the coverage of a scope, with the chosen time if it is timeboxed. */
export function coverageOf(offer: ApprovalScopeOffer, ttl?: number): string {
  return ttl !== undefined && offer.scope === ApprovalScope.TIMEBOXED && offer.what !== "" ? `${offer.what}, ${offer.by}, for up to ${formatDuration(ttl)}` : offer.covers;
}

/** Returns the label of the button: the decision with its scope. */
export function labelOf(choice: Choice): string {
  if (!choice.allow) return "Deny";
  switch (choice.offer?.scope) {
    case ApprovalScope.SESSION:
      return "Allow for this session";
    case ApprovalScope.TIMEBOXED:
      return `Allow for ${formatDuration(choice.ttl)}`;
    default:
      return "Allow once";
  }
}

/** Returns the name of a scope. */
export function offerName(offer: ApprovalScopeOffer): string {
  const scope = { [ApprovalScope.SESSION]: "For this session", [ApprovalScope.TIMEBOXED]: "For a limited time" }[offer.scope as number];
  if (scope === undefined) return "Once";
  const match = { [GrantMatch.EXACT]: "this exact call", [GrantMatch.SUBJECT]: "similar calls", [GrantMatch.TOOL]: "all calls of the tool" }[offer.match as number];
  return match === undefined ? scope : `${scope}, ${match}`;
}

/** Returns the default duration of a scope: half an hour, or its maximum if shorter. */
export function defaultTtl(offer: ApprovalScopeOffer | undefined): number {
  const longest = durationMillis(offer?.longest);
  return longest === 0 ? 1_800_000 : Math.min(1_800_000, longest);
}

/** Returns why a vote was not counted, or undefined for other errors. */
export function conflict(thrown: unknown, now: Approval | undefined): string | undefined {
  const f = failure(thrown);
  const state = now === undefined ? "" : nameOf(states, now.state);
  const by = now?.votes.at(-1)?.user ?? "";
  switch (f.reason) {
    case "APPROVAL_CONFLICT":
      return state === "" || state === "pending"
        ? "The approval changed in the meantime: your vote was not counted. Review it again."
        : `Another member answered first: the approval is ${state}${by === "" ? "" : `, by ${by}`}. Your vote was not counted.`;
    case "APPROVAL_EXPIRED":
      return "The approval expired before your vote arrived. Nothing was allowed; the requester can try again.";
    case "DIGEST_MISMATCH":
    case "APPROVAL_BINDING_MISMATCH":
      return "The call differs from the one that was displayed: your vote was not counted. The page now shows the current call.";
    default:
      return undefined;
  }
}

/** Whether an approval can still be answered. */
export function isPending(approval: Approval): boolean {
  return approval.state === ApprovalState.PENDING;
}
