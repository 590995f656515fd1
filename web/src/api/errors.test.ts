import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { failure, sessionOver } from "./errors";

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

test("an error of the gateway has its code and remedy", () => {
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

test("a gateway that is away is said so", () => {
  expect(failure(new TypeError("Failed to fetch"))).toMatchObject({ reason: "", transient: true });
});

test("only the gateway's word ends a session", () => {
  expect(sessionOver(new ConnectError("who are you", Code.Unauthenticated))).toBe(true);
  expect(sessionOver(new TypeError("Failed to fetch"))).toBe(false);
});
