import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { failure } from "../../api/errors";
import type { Approval, ApprovalScopeOffer, DecideApprovalRequestSchema } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalState, GrantMatch } from "../../gen/palyra/v1/approvals_pb";
import { palyra } from "../../text/cli";
import { durationMs, length } from "../../text/time";
import { matches, scopes, states, word } from "./words";

/** What a person chose. */
export type Choice = { allow: true; offer: ApprovalScopeOffer | undefined; ttl: number; uses: number } | { allow: false; reason: string };

/** The vote on what was shown, and on nothing else. */
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

/** The same vote as a command, with a proof of presence where one is wanted. */
export function commandOf(shown: Approval, choice: Choice, present = false): string {
  const digest = ["--digest", shown.callDigest, ...(present ? ["--present"] : [])];
  if (!choice.allow) return palyra("approvals", "decide", shown.approvalId, "--deny", "--reason", choice.reason.trim() || "why", ...digest);
  const scope = choice.offer?.scope ?? ApprovalScope.ONCE;
  const words = ["approvals", "decide", shown.approvalId, "--allow", word(scopes, scope)];
  if (scope === ApprovalScope.TIMEBOXED) words.push("--for", `${Math.round(choice.ttl / 60_000)}m`);
  if (scope !== ApprovalScope.ONCE) words.push("--match", word(matches, choice.offer?.match ?? GrantMatch.EXACT));
  if (scope !== ApprovalScope.ONCE && choice.uses > 0) words.push("--uses", String(choice.uses));
  return palyra(...words, ...digest);
}

/** The times that a yes can be given for, at most the longest. */
export function timesUpTo(longest: number): { value: string; label: string }[] {
  const all = [5, 15, 30, 60, 240, 480, 1440, 4320, 10_080].map((minutes) => minutes * 60_000);
  const fit = all.filter((t) => t <= longest);
  if (longest > 0 && !fit.includes(longest)) fit.push(longest);
  return fit.map((t) => ({ value: String(t), label: length(t) }));
}

/** What a yes covers, with the time that was chosen where it is for a time. */
export function coversOf(offer: ApprovalScopeOffer, ttl?: number): string {
  return ttl !== undefined && offer.scope === ApprovalScope.TIMEBOXED && offer.what !== "" ? `${offer.what}, ${offer.by}, for up to ${length(ttl)}` : offer.covers;
}

/** What the button says: the decision with its reach. */
export function labelOf(choice: Choice): string {
  if (!choice.allow) return "Deny";
  switch (choice.offer?.scope) {
    case ApprovalScope.SESSION:
      return "Allow for this session";
    case ApprovalScope.TIMEBOXED:
      return `Allow for ${length(choice.ttl)}`;
    default:
      return "Allow once";
  }
}

/** Which calls an offer is for, in two words. */
export function offerName(offer: ApprovalScopeOffer): string {
  const scope = { [ApprovalScope.SESSION]: "For this session", [ApprovalScope.TIMEBOXED]: "For a time" }[offer.scope as number];
  if (scope === undefined) return "Once";
  const match = { [GrantMatch.EXACT]: "this very call", [GrantMatch.SUBJECT]: "calls like it", [GrantMatch.TOOL]: "the whole tool" }[offer.match as number];
  return match === undefined ? scope : `${scope}, ${match}`;
}

/** The default time of an offer: half an hour, or the longest. */
export function defaultTtl(offer: ApprovalScopeOffer | undefined): number {
  const longest = durationMs(offer?.longest);
  return longest === 0 ? 1_800_000 : Math.min(1_800_000, longest);
}

/** What became of a vote that did not count, in words about this ask. */
export function conflict(thrown: unknown, now: Approval | undefined): string | undefined {
  const f = failure(thrown);
  const state = now === undefined ? "" : word(states, now.state);
  const by = now?.votes.at(-1)?.user ?? "";
  switch (f.reason) {
    case "APPROVAL_CONFLICT":
      return state === "" || state === "pending"
        ? "It changed while you decided: your vote was not counted. Look at it again."
        : `Somebody else was faster: it is ${state}${by === "" ? "" : `, by ${by}`}. Your vote was not counted.`;
    case "APPROVAL_EXPIRED":
      return "Its time ran out before your vote arrived. Nothing was allowed; the requester may ask again.";
    case "DIGEST_MISMATCH":
    case "APPROVAL_BINDING_MISMATCH":
      return "It is not what you were shown any more: your vote was not counted. What is shown now is what it is.";
    default:
      return undefined;
  }
}

/** Whether an ask can still be answered. */
export function waits(approval: Approval): boolean {
  return approval.state === ApprovalState.PENDING;
}
