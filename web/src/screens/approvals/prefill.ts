import type { Approval, ApprovalScopeOffer } from "../../gen/palyra/v1/approvals_pb";
import { durationMillis } from "../../text/time";
import { defaultTtl, durationsUpTo } from "./decide";

/** The values of `palyra approvals decide` that prefill the form; the user still confirms them. */
export interface Prefill {
  allow: boolean;
  at: number;
  ttl: number;
  uses: string;
  reason: string;
}

const defaults = (offer: ApprovalScopeOffer | undefined): Prefill => ({ allow: true, at: 0, ttl: defaultTtl(offer), uses: "", reason: "" });

/** Returns the prefilled values for an approval. Values for another call, or not among the offers, are ignored. */
export function prefillFor(approval: Approval, stored: string | null): Prefill {
  const offers = approval.prompt?.scopes ?? [];
  const none = defaults(offers[0]);
  if (stored === null) return none;
  let answer: Record<string, unknown>;
  try {
    answer = JSON.parse(stored) as Record<string, unknown>;
  } catch {
    return none;
  }
  if (answer.approval !== approval.approvalId || answer.digest !== approval.callDigest) return none;
  const reason = typeof answer.reason === "string" ? answer.reason.slice(0, 1024) : "";
  if (answer.allow !== true) return { ...none, allow: false, reason };
  const at = offers.findIndex((o) => o.scope === answer.scope && (answer.match === undefined || o.match === answer.match));
  if (at < 0) return none;
  const requested = Number(answer.ttl_ms ?? 0);
  const fitting = durationsUpTo(durationMillis(offers[at]?.longest)).map((t) => Number(t.value)).filter((t) => t <= requested);
  return { allow: true, at, ttl: fitting.at(-1) ?? defaultTtl(offers[at]), uses: Number(answer.uses ?? 0) > 0 ? String(answer.uses) : "", reason: "" };
}
