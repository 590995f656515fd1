import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { PasskeySchema } from "../../gen/palyra/v1/presence_pb";
import { canProveLater, proofAvailability, requiresPresence, acceptsVoteWithoutProof } from "./presence";

const good = create(PasskeySchema, { passkeyId: "a" });
const waiting = create(PasskeySchema, { passkeyId: "b", waits: true });
const lost = create(PasskeySchema, { passkeyId: "c", lost: true });

test("presence is required for an approval, or for every answer if policy accepts none without it", () => {
  const lacking = create(ApprovalSchema, { presenceWanted: true });
  const needing = create(ApprovalSchema, { needs: { presence: true } });
  const each = create(ApprovalSchema, { you: { withPresence: true } });
  const plain = create(ApprovalSchema, { you: { mayDecide: true } });
  expect([lacking, needing, each, plain].map((a) => requiresPresence(a, true))).toEqual([true, true, true, false]);
  expect([lacking, needing, each, plain].map((a) => requiresPresence(a, false))).toEqual([false, false, true, false]);
  expect([lacking, each].map(acceptsVoteWithoutProof)).toEqual([true, false]);
});

test("the obstacle to a proof of presence is reported", () => {
  expect(proofAvailability([waiting, good], undefined)).toEqual({ can: true });
  expect(proofAvailability([lost, waiting], undefined)).toMatchObject({ can: false, unconfirmed: waiting });
  expect(proofAvailability([lost], undefined)).toMatchObject({ can: false, why: expect.stringMatching(/another address/) as string });
  expect(proofAvailability([], undefined)).toMatchObject({ can: false, why: "You have no passkey." });
  expect(proofAvailability([good], "no WebAuthn")).toEqual({ can: false, why: "no WebAuthn" });
});

test("an approval without proof may be repeated with it", () => {
  const approvalWith = (present: boolean, allow = true) => create(ApprovalSchema, { presenceWanted: true, votes: [{ user: "user:a", allow, present }] });
  expect(canProveLater(approvalWith(false), "user:a")).toBe(true);
  expect(canProveLater(approvalWith(true), "user:a")).toBe(false);
  expect(canProveLater(approvalWith(false, false), "user:a")).toBe(false);
  expect(canProveLater(approvalWith(false), "user:b")).toBe(false);
});
