import { expect, test } from "vitest";
import { refusal, whyNoPasskeys } from "./passkey";

test("a browser without passkeys is said to be one", () => {
  expect(whyNoPasskeys()).toMatch(/another browser|trusted address/);
});

test("a refusal says that nothing happened, and what to do", () => {
  const named = (name: string) => Object.assign(new Error("x"), { name });
  expect(refusal("use", named("NotAllowedError"))).toMatch(/cancelled.*Nothing was sent\. Try again/);
  expect(refusal("make", named("NotAllowedError"))).toMatch(/No passkey was made/);
  expect(refusal("make", named("InvalidStateError"))).toMatch(/already/);
  expect(refusal("make", named("ConstraintError"))).toMatch(/PIN/);
  expect(refusal("use", named("SecurityError"))).toMatch(/palyra console/);
  expect(refusal("use", named("OddError"))).toMatch(/OddError/);
});
