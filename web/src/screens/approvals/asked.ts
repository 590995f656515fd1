import type { Approval, ApprovalScopeOffer } from "../../gen/palyra/v1/approvals_pb";
import { durationMs } from "../../text/time";
import { defaultTtl, timesUpTo } from "./decide";

/** An answer that `palyra approvals decide` asks for: it is filled in, and the person gives it. */
export interface Asked {
  allow: boolean;
  at: number;
  ttl: number;
  uses: string;
  reason: string;
}

const nothing = (offer: ApprovalScopeOffer | undefined): Asked => ({ allow: true, at: 0, ttl: defaultTtl(offer), uses: "", reason: "" });

/** What is to be filled in for an approval: what was asked of the very call that waits, as far as it is on offer. */
export function askedOf(approval: Approval, kept: string | null): Asked {
  const offers = approval.prompt?.scopes ?? [];
  const none = nothing(offers[0]);
  if (kept === null) return none;
  let said: Record<string, unknown>;
  try {
    said = JSON.parse(kept) as Record<string, unknown>;
  } catch {
    return none;
  }
  if (said.approval !== approval.approvalId || said.digest !== approval.callDigest) return none;
  const reason = typeof said.reason === "string" ? said.reason.slice(0, 1024) : "";
  if (said.allow !== true) return { ...none, allow: false, reason };
  const at = offers.findIndex((o) => o.scope === said.scope && (said.match === undefined || o.match === said.match));
  if (at < 0) return none;
  const wished = Number(said.ttl_ms ?? 0);
  const fit = timesUpTo(durationMs(offers[at]?.longest)).map((t) => Number(t.value)).filter((t) => t <= wished);
  return { allow: true, at, ttl: fit.at(-1) ?? defaultTtl(offers[at]), uses: Number(said.uses ?? 0) > 0 ? String(said.uses) : "", reason: "" };
}
