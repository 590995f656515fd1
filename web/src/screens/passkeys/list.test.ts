import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { counts } from "../../api/passkey";
import { PasskeySchema } from "../../gen/palyra/v1/presence_pb";
import { goodName, recent } from "./list";

const day = 86_400_000;
const at = (passkeyId: string, days: number) => create(PasskeySchema, { passkeyId, enrolledAt: timestampFromMs(days * day) });

test("what was enrolled in the last 7 days, the newest first", () => {
  expect(recent([at("old", 2), at("a", 4), at("b", 9)], 10 * day).map((p) => p.passkeyId)).toEqual(["b", "a"]);
});

test("what waits or is lost proves nothing", () => {
  expect(counts(create(PasskeySchema, {}))).toBe(true);
  expect(counts(create(PasskeySchema, { waits: true }))).toBe(false);
  expect(counts(create(PasskeySchema, { lost: true }))).toBe(false);
});

test("a name", () => {
  expect(["laptop", "Key 2", "a"].every((name) => goodName.test(name))).toBe(true);
  expect(["", " x", "<b>", "x".repeat(64)].some((name) => goodName.test(name))).toBe(false);
});
