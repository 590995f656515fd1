import { expect, test } from "vitest";
import { refusal, passkeyProblem } from "./passkey";

test("passkeyProblem reports a browser without passkeys", () => {
  expect(passkeyProblem()).toMatch(/another browser|secure address/);
});

test("a refusal names the effect and the next step", () => {
  const named = (name: string) => Object.assign(new Error("x"), { name });
  expect(refusal("use", named("NotAllowedError"))).toMatch(/cancelled.*Nothing was sent\. Try again/);
  expect(refusal("make", named("NotAllowedError"))).toMatch(/No passkey was created/);
  expect(refusal("make", named("InvalidStateError"))).toMatch(/already/);
  expect(refusal("make", named("ConstraintError"))).toMatch(/PIN/);
  expect(refusal("use", named("SecurityError"))).toMatch(/palyra console/);
  expect(refusal("use", named("OddError"))).toMatch(/OddError/);
});
