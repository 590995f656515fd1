import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { ApprovalSchema, ApprovalScope, ApprovalScopeOfferSchema, ApprovalState, GrantMatch } from "../../gen/palyra/v1/approvals_pb";
import { parseFilter } from "../../ui/filter";
import { commandOf, coverageOf, labelOf, durationsUpTo, voteOf } from "./decide";
import { facets, flagsOf, requestOf, matchesFilter } from "./facets";
import { describeMissingVotes } from "./MissingVotes";

const shown = create(ApprovalSchema, { approvalId: "01J", callDigest: `sha256:${"a".repeat(64)}` });
const timed = create(ApprovalScopeOfferSchema, { scope: ApprovalScope.TIMEBOXED, match: GrantMatch.SUBJECT, longest: durationFromMs(7_200_000) });

test("a vote has the displayed digest and the chosen scope", () => {
  expect(voteOf(shown, { allow: true, offer: undefined, ttl: 999, uses: 5 })).toEqual({ approvalId: "01J", shownDigest: shown.callDigest, allow: true, scope: ApprovalScope.ONCE });
  expect(voteOf(shown, { allow: true, offer: timed, ttl: 900_000, uses: 3 })).toMatchObject({ scope: ApprovalScope.TIMEBOXED, match: GrantMatch.SUBJECT, ttl: durationFromMs(900_000), uses: 3n });
  expect(voteOf(shown, { allow: false, reason: " no " })).toEqual({ approvalId: "01J", shownDigest: shown.callDigest, allow: false, reason: "no" });
});

test("commandOf returns the equivalent command", () => {
  expect(commandOf(shown, { allow: true, offer: timed, ttl: 900_000, uses: 0 })).toBe(`palyra approvals decide 01J --allow timeboxed --for 15m --match subject --digest ${shown.callDigest}`);
  expect(commandOf(shown, { allow: false, reason: "it's $HOME" })).toContain(`--reason 'it'\\''s $HOME'`);
});

test("labelOf names the scope", () => {
  expect(labelOf({ allow: true, offer: timed, ttl: 900_000, uses: 0 })).toBe("Allow for 15m");
  expect(labelOf({ allow: true, offer: undefined, ttl: 0, uses: 0 })).toBe("Allow once");
  expect(durationsUpTo(7_200_000).map((t) => t.label)).toEqual(["5m", "15m", "30m", "1h", "2h"]);
});

test("coversOf names the chosen time", () => {
  const offer = { what: "any git command", by: "by agent:claude", covers: "any git command, by agent:claude, for up to 7 days" };
  const of = (scope: ApprovalScope) => create(ApprovalScopeOfferSchema, { ...offer, scope });
  expect(coverageOf(of(ApprovalScope.TIMEBOXED), 900_000)).toBe("any git command, by agent:claude, for up to 15m");
  expect(coverageOf(of(ApprovalScope.TIMEBOXED), 7_200_000)).toBe("any git command, by agent:claude, for up to 2h");
  expect(coverageOf(of(ApprovalScope.TIMEBOXED))).toBe(offer.covers);
  expect(coverageOf(of(ApprovalScope.SESSION), 900_000)).toBe(offer.covers);
});

test("a filter applies equally to requests and to stream events", () => {
  const filter = parseFilter("-tool:echo severity:high requester:agent:x newer:1h", facets);
  const now = 10_000_000;
  expect(requestOf(filter, now)).toMatchObject({ exceptTools: ["echo"], severities: ["high"], principals: ["agent:x"], since: { seconds: 6400n } });
  expect(flagsOf(filter)).toEqual(["--except-tool", "echo", "--severity", "high", "--principal", "agent:x", "--state", "pending", "--since", "1h"]);
  const approvalOf = (over: object) => create(ApprovalSchema, { state: ApprovalState.PENDING, severity: "high", requestedBy: "agent:x", prompt: { tool: "fs.write" }, createdAt: { seconds: 9000n }, ...over });
  expect(matchesFilter(filter, approvalOf({}), now)).toBe(true);
  expect(matchesFilter(filter, approvalOf({ prompt: { tool: "echo" } }), now)).toBe(false);
  expect(matchesFilter(filter, approvalOf({ severity: "low" }), now)).toBe(false);
  expect(matchesFilter(filter, approvalOf({ state: ApprovalState.ALLOWED }), now)).toBe(false);
  expect(matchesFilter(filter, approvalOf({ createdAt: { seconds: 10n } }), now)).toBe(false);
  expect(matchesFilter(filter, approvalOf({ requestedBy: "agent:y", onBehalfOf: "agent:x" }), now)).toBe(true);
});

test("needsOf describes the missing votes in one line", () => {
  expect(describeMissingVotes(create(ApprovalSchema, { needs: { have: 1, want: 2, role: "security", presence: true } }))).toBe("1 of 2 approved, requires role security, with proof of presence");
});
