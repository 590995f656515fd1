// The names of the API's enum values in the CLI and in filters.
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalScope, ApprovalState, ApprovalSubjectType, GrantMatch } from "../../gen/palyra/v1/approvals_pb";
import type { Tone } from "../../ui/Badge";

export const states: Readonly<Record<string, ApprovalState>> = {
  pending: ApprovalState.PENDING,
  allowed: ApprovalState.ALLOWED,
  denied: ApprovalState.DENIED,
  expired: ApprovalState.EXPIRED,
  cancelled: ApprovalState.CANCELLED,
  consumed: ApprovalState.CONSUMED,
  revoked: ApprovalState.REVOKED,
};

export const types: Readonly<Record<string, ApprovalSubjectType>> = {
  tool: ApprovalSubjectType.TOOL,
  channel_send: ApprovalSubjectType.CHANNEL_SEND,
  secret_access: ApprovalSubjectType.SECRET_ACCESS,
  browser_action: ApprovalSubjectType.BROWSER_ACTION,
  node_capability: ApprovalSubjectType.NODE_CAPABILITY,
  device_pairing: ApprovalSubjectType.DEVICE_PAIRING,
  gateway_change: ApprovalSubjectType.GATEWAY_CHANGE,
};

export const scopes: Readonly<Record<string, ApprovalScope>> = {
  once: ApprovalScope.ONCE,
  session: ApprovalScope.SESSION,
  timeboxed: ApprovalScope.TIMEBOXED,
};

export const matches: Readonly<Record<string, GrantMatch>> = {
  exact: GrantMatch.EXACT,
  subject: GrantMatch.SUBJECT,
  tool: GrantMatch.TOOL,
};

/** Returns the name of an enum value, or "". */
export function nameOf<T extends number>(table: Readonly<Record<string, T>>, value: T): string {
  return Object.keys(table).find((name) => table[name] === value) ?? "";
}

export const stateTones: Readonly<Record<string, Tone>> = {
  pending: "accent",
  allowed: "good",
  consumed: "good",
  denied: "bad",
  revoked: "bad",
  expired: "warn",
  cancelled: "plain",
};

/** Returns the headline of an approval: the command line or the file. */
export function headline(approval: Approval): string {
  const prompt = approval.prompt;
  if (prompt === undefined) return approval.subjectId;
  return prompt.lead || prompt.summary || prompt.title || approval.subjectId;
}
