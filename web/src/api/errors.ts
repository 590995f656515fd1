// Errors of the gateway: a code of docs/reasons.md, a sentence and what to do next.
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { sentence } from "../text/sentence";

/** What went wrong, for people. */
export interface Failure {
  /** The reason code, "APPROVAL_CONFLICT"; "" where no gateway answered. */
  reason: string;
  message: string;
  remedy: string;
  /** What else the gateway said, by name. */
  fields: Readonly<Record<string, string>>;
  /** True when the same request may work in a moment. */
  transient: boolean;
}

/** Reads any thrown value. */
export function failure(thrown: unknown): Failure {
  const error = ConnectError.from(thrown);
  for (const detail of error.details) {
    if ("type" in detail && detail.type === "google.rpc.ErrorInfo") {
      const info = errorInfo(detail.value);
      const { remedy = "", ...fields } = info.metadata;
      return { reason: info.reason, message: sentence(error.rawMessage), remedy, fields, transient: transient(error.code) };
    }
  }
  if (error.code === Code.Canceled) {
    return { reason: "", message: "The request was given up.", remedy: "", fields: {}, transient: true };
  }
  if (thrown instanceof TypeError || error.code === Code.Unavailable) {
    return {
      reason: "",
      message: "The gateway cannot be reached.",
      remedy: "Look at it with `palyra status`. This page goes on by itself when it is back.",
      fields: {},
      transient: true,
    };
  }
  return { reason: "", message: sentence(error.rawMessage), remedy: "", fields: {}, transient: transient(error.code) };
}

/** Whether the caller's session is over. */
export function sessionOver(thrown: unknown): boolean {
  return thrown instanceof ConnectError && thrown.code === Code.Unauthenticated;
}

function transient(code: Code): boolean {
  return code === Code.Unavailable || code === Code.DeadlineExceeded || code === Code.ResourceExhausted;
}

/** google.rpc.ErrorInfo: reason 1, domain 2, metadata 3. */
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
