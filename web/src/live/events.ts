import type { Approval } from "../gen/palyra/v1/approvals_pb";

/** The kind of a change. "reset": too many events were missed, and all queries are invalidated. */
export type Kind =
  | "approval"
  | "grant"
  | "run"
  | "call"
  | "session"
  | "secret"
  | "member"
  | "policy"
  | "gateway"
  | "upstream"
  | "skill"
  | "install"
  | "journal"
  | "status"
  | "heartbeat"
  | "reset"
  /** A kind that this page does not support. */
  | "other";

/** An event of the gateway's stream, identical in every tab. */
export interface LiveEvent {
  /** The sequence number of the journal event; it never decreases. */
  sequence: number;
  kind: Kind;
  /** The id of the approval, grant, run or call. */
  id: string;
  /** The run, or "". */
  run: string;
  /** The code of docs/reference/events.md, or "". */
  code: string;
  /** The approval as in lists; only for the kind "approval". */
  approval?: Approval;
  /** The status; only for the kind "status". */
  status?: { frozen: boolean; pending: number };
}
