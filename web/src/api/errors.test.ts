import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { failure, isSessionEnded } from "./errors";

function info(reason: string, metadata: Record<string, string>): Uint8Array {
  const w = new BinaryWriter();
  w.tag(1, WireType.LengthDelimited).string(reason);
  w.tag(2, WireType.LengthDelimited).string("palyra.dev");
  for (const [name, value] of Object.entries(metadata)) {
    w.tag(3, WireType.LengthDelimited).fork();
    w.tag(1, WireType.LengthDelimited).string(name);
    w.tag(2, WireType.LengthDelimited).string(value);
    w.join();
  }
  return w.finish();
}

test("failure has the reason code and the remedy of the gateway", () => {
  const error = new ConnectError("somebody else decided", Code.Aborted);
  error.details.push({ type: "google.rpc.ErrorInfo", value: info("APPROVAL_CONFLICT", { remedy: "Look again.", state: "denied" }) });
  expect(failure(error)).toEqual({
    reason: "APPROVAL_CONFLICT",
    message: "Somebody else decided.",
    remedy: "Look again.",
    fields: { state: "denied" },
    transient: false,
  });
});

test("failure reports an unreachable gateway", () => {
  expect(failure(new TypeError("Failed to fetch"))).toMatchObject({ reason: "", transient: true });
});

test("only the status Unauthenticated ends a session", () => {
  expect(isSessionEnded(new ConnectError("who are you", Code.Unauthenticated))).toBe(true);
  expect(isSessionEnded(new TypeError("Failed to fetch"))).toBe(false);
});
