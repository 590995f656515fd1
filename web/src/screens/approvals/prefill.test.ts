import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, test } from "vitest";
import { ApprovalSchema, ApprovalScope, GrantMatch } from "../../gen/palyra/v1/approvals_pb";
import { prefillFor } from "./prefill";

const id = "01JZ8Q4T2M0000000000000000";
const approval = create(ApprovalSchema, {
  approvalId: id,
  callDigest: "sha256:a",
  prompt: {
    scopes: [
      { scope: ApprovalScope.ONCE },
      { scope: ApprovalScope.SESSION, match: GrantMatch.EXACT, longest: durationFromMs(3_600_000) },
      { scope: ApprovalScope.TIMEBOXED, match: GrantMatch.EXACT, longest: durationFromMs(3_600_000) },
      { scope: ApprovalScope.TIMEBOXED, match: GrantMatch.SUBJECT, longest: durationFromMs(3_600_000) },
    ],
  },
});
const of = (fields: object) => prefillFor(approval, JSON.stringify({ approval: id, digest: "sha256:a", ...fields }));

describe("the answer of a command", () => {
  test("is prefilled", () => {
    expect(of({ allow: true, scope: ApprovalScope.TIMEBOXED, match: GrantMatch.SUBJECT, ttl_ms: 1_800_000, uses: 3 })).toMatchObject({ allow: true, at: 3, ttl: 1_800_000, uses: "3" });
    expect(of({ allow: true, scope: ApprovalScope.ONCE })).toMatchObject({ allow: true, at: 0, uses: "" });
    expect(of({ allow: false, reason: "not today" })).toMatchObject({ allow: false, at: 0, reason: "not today" });
  });
  test("is not prefilled with a longer time than requested", () => {
    expect(of({ allow: true, scope: ApprovalScope.TIMEBOXED, match: GrantMatch.EXACT, ttl_ms: 2_000_000 }).ttl).toBe(1_800_000);
  });
  test("is ignored for another call or a scope that is not offered", () => {
    const none = prefillFor(approval, null);
    for (const stored of [
      "{",
      JSON.stringify({ approval: id, digest: "sha256:b", allow: true, scope: ApprovalScope.SESSION }),
      JSON.stringify({ approval: "another", digest: "sha256:a", allow: true, scope: ApprovalScope.SESSION }),
      JSON.stringify({ approval: id, digest: "sha256:a", allow: true, scope: ApprovalScope.TIMEBOXED, match: GrantMatch.TOOL }),
    ]) {
      expect(prefillFor(approval, stored)).toEqual(none);
    }
    expect(none).toMatchObject({ at: 0, reason: "", uses: "" });
  });
});
