import type { Approval } from "../gen/palyra/v1/approvals_pb";

/** What changed. "reset": so much was missed that everything is asked for again. */
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
  /** Something that this page knows no word for. */
  | "other";

/** One event of the gateway's stream, the same in every tab. */
export interface LiveEvent {
  /** The number of the journal's event that it came of; it never goes back. */
  sequence: number;
  kind: Kind;
  /** What it is about: the id of the approval, grant, run or call. */
  id: string;
  /** The run that it belongs to, if any. */
  run: string;
  /** The code of docs/events.md, where there is one. */
  code: string;
  /** Of an approval: as lists show it. */
  approval?: Approval;
  /** Of a status. */
  status?: { frozen: boolean; pending: number };
}
