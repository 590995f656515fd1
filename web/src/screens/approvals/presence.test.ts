import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { PasskeySchema } from "../../gen/palyra/v1/presence_pb";
import { mayProveLater, meansOf, presenceWanted, takenWithout } from "./presence";

const good = create(PasskeySchema, { passkeyId: "a" });
const waiting = create(PasskeySchema, { passkeyId: "b", waits: true });
const lost = create(PasskeySchema, { passkeyId: "c", lost: true });

test("presence is asked of a yes where the yes lacks it, of each answer where policy takes none without", () => {
  const lacking = create(ApprovalSchema, { presenceWanted: true });
  const needing = create(ApprovalSchema, { needs: { presence: true } });
  const each = create(ApprovalSchema, { you: { withPresence: true } });
  const plain = create(ApprovalSchema, { you: { mayDecide: true } });
  expect([lacking, needing, each, plain].map((a) => presenceWanted(a, true))).toEqual([true, true, true, false]);
  expect([lacking, needing, each, plain].map((a) => presenceWanted(a, false))).toEqual([false, false, true, false]);
  expect([lacking, each].map(takenWithout)).toEqual([true, false]);
});

test("what stands in the way of a proof is said", () => {
  expect(meansOf([waiting, good], undefined)).toEqual({ can: true });
  expect(meansOf([lost, waiting], undefined)).toMatchObject({ can: false, waiting });
  expect(meansOf([lost], undefined)).toMatchObject({ can: false, why: expect.stringMatching(/another address/) as string });
  expect(meansOf([], undefined)).toMatchObject({ can: false, why: "You have no passkey." });
  expect(meansOf([good], "no WebAuthn")).toEqual({ can: false, why: "no WebAuthn" });
});

test("a yes without proof may be said again with it", () => {
  const ask = (present: boolean, allow = true) => create(ApprovalSchema, { presenceWanted: true, votes: [{ user: "user:a", allow, present }] });
  expect(mayProveLater(ask(false), "user:a")).toBe(true);
  expect(mayProveLater(ask(true), "user:a")).toBe(false);
  expect(mayProveLater(ask(false, false), "user:a")).toBe(false);
  expect(mayProveLater(ask(false), "user:b")).toBe(false);
});
