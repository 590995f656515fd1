import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { isActive } from "../../api/passkey";
import { PasskeySchema } from "../../gen/palyra/v1/presence_pb";
import { namePattern, recent } from "./list";

const day = 86_400_000;
const at = (passkeyId: string, days: number) => create(PasskeySchema, { passkeyId, enrolledAt: timestampFromMs(days * day) });

test("recent returns the passkeys of the last 7 days, newest first", () => {
  expect(recent([at("old", 2), at("a", 4), at("b", 9)], 10 * day).map((p) => p.passkeyId)).toEqual(["b", "a"]);
});

test("unconfirmed and lost passkeys do not count", () => {
  expect(isActive(create(PasskeySchema, {}))).toBe(true);
  expect(isActive(create(PasskeySchema, { waits: true }))).toBe(false);
  expect(isActive(create(PasskeySchema, { lost: true }))).toBe(false);
});

test("goodName accepts valid names", () => {
  expect(["laptop", "Key 2", "a"].every((name) => namePattern.test(name))).toBe(true);
  expect(["", " x", "<b>", "x".repeat(64)].some((name) => namePattern.test(name))).toBe(false);
});
