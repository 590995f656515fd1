import { isSessionEnded } from "../api/errors";
import { client } from "../api/transport";
import type { WatchConsoleResponse } from "../gen/palyra/v1/console_pb";
import { ConsoleService } from "../gen/palyra/v1/console_pb";
import type { Source } from "./connection";
import type { Kind, LiveEvent } from "./events";

const kinds: ReadonlySet<string> = new Set<Kind>(["grant", "run", "call", "session", "secret", "member", "policy", "gateway", "upstream", "skill", "install"]);

/** The event stream of the gateway. */
export const gatewayStream: Source = {
  async *open(after, signal) {
    for await (const message of client(ConsoleService).watchConsole({ resumeAfter: BigInt(after) }, { signal })) {
      const event = eventOf(message);
      if (event !== undefined) yield event;
    }
  },
  isSessionEnd: isSessionEnded,
};

export function eventOf(message: WatchConsoleResponse): LiveEvent | undefined {
  const plain = { sequence: Number(message.sequence), id: "", run: "", code: "" };
  const { event } = message;
  switch (event.case) {
    case "approval":
      return { ...plain, kind: "approval", id: event.value.approvalId, run: event.value.run, approval: event.value };
    case "change": {
      const { kind, subject, run, code } = event.value;
      return { ...plain, kind: kinds.has(kind) ? (kind as Kind) : "other", id: subject, run, code };
    }
    case "journalHead":
      return { ...plain, kind: "journal" };
    case "status":
      return { ...plain, kind: "status", status: { frozen: event.value.frozen, pending: event.value.pendingApprovals } };
    case "heartbeat":
      return { ...plain, kind: "heartbeat" };
    case "reset":
      return { ...plain, kind: "reset" };
    case undefined:
      return undefined;
  }
}
