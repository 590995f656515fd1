import type { Approval } from "../gen/palyra/v1/approvals_pb";

/** What changed. "reset": so much was missed that everything is asked for again. */
export type Kind = "approval" | "grant" | "run" | "call" | "journal" | "status" | "session-ended" | "heartbeat" | "reset";

/** One event of the gateway's stream, the same in every tab. */
export interface LiveEvent {
  /** Counts up within a gateway's process; 0 for what is not counted. */
  sequence: number;
  kind: Kind;
  /** What it is about: the id of the approval, grant, run or call. */
  id: string;
  /** The approval as lists show it. */
  approval?: Approval;
}
