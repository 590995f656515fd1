// Errors of the gateway: a code of docs/reference/reasons.md, a message and a remedy.
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { sentence } from "../text/sentence";

/** An error to display. */
export interface Failure {
  /** The reason code, "APPROVAL_CONFLICT"; "" without a response of the gateway. */
  reason: string;
  message: string;
  remedy: string;
  /** The other fields of the error, by name. */
  fields: Readonly<Record<string, string>>;
  /** Whether a retry of the same request may succeed. */
  transient: boolean;
}

/** Converts any thrown value to a Failure. */
export function failure(thrown: unknown): Failure {
  const error = ConnectError.from(thrown);
  for (const detail of error.details) {
    if ("type" in detail && detail.type === "google.rpc.ErrorInfo") {
      const info = errorInfo(detail.value);
      const { remedy = "", ...fields } = info.metadata;
      return { reason: info.reason, message: sentence(error.rawMessage), remedy, fields, transient: isTransient(error.code) };
    }
  }
  if (error.code === Code.Canceled) {
    return { reason: "", message: "The request was cancelled.", remedy: "", fields: {}, transient: true };
  }
  if (thrown instanceof TypeError || error.code === Code.Unavailable) {
    return {
      reason: "",
      message: "The gateway cannot be reached.",
      remedy: "Check it with `palyra status`. This page reconnects automatically.",
      fields: {},
      transient: true,
    };
  }
  return { reason: "", message: sentence(error.rawMessage), remedy: "", fields: {}, transient: isTransient(error.code) };
}

/** Whether the caller's session has ended. */
export function isSessionEnded(thrown: unknown): boolean {
  return thrown instanceof ConnectError && thrown.code === Code.Unauthenticated;
}

function isTransient(code: Code): boolean {
  return code === Code.Unavailable || code === Code.DeadlineExceeded || code === Code.ResourceExhausted;
}

/** Decodes google.rpc.ErrorInfo: reason 1, domain 2, metadata 3. */
export function errorInfo(bytes: Uint8Array): { reason: string; metadata: Record<string, string> } {
  const reader = new BinaryReader(bytes);
  let reason = "";
  const metadata: Record<string, string> = {};
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1 && wire === WireType.LengthDelimited) {
      reason = reader.string();
    } else if (field === 3 && wire === WireType.LengthDelimited) {
      const entry = new BinaryReader(reader.bytes());
      let name = "";
      let value = "";
      while (entry.pos < entry.len) {
        const [part, type] = entry.tag();
        if (part === 1) name = entry.string();
        else if (part === 2) value = entry.string();
        else entry.skip(type, part);
      }
      metadata[name] = value;
    } else {
      reader.skip(wire, field);
    }
  }
  return { reason, metadata };
}
