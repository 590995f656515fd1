import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { Notice } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { waits } from "./decide";

/** Who is still needed: "1 of 2, needs role security". */
export function Needs({ approval }: { approval: Approval }) {
  if (!waits(approval)) return null;
  const text = needsOf(approval);
  if (text === "") return null;
  return (
    <Notice tone="plain">
      <span className="font-semibold">Still needed: </span>
      <Untrusted text={text} />
    </Notice>
  );
}

export function needsOf(approval: Approval): string {
  const needs = approval.needs;
  if (needs === undefined) return approval.missing;
  const parts = [`${needs.have} of ${needs.want} said yes`];
  if (needs.role !== "") parts.push(`needs role ${needs.role}`);
  if (needs.surfaces.length > 0) parts.push(`on ${needs.surfaces.join(" or ")}`);
  if (needs.paired) parts.push("from a paired device");
  if (needs.presence) parts.push("with proof of presence");
  return parts.join(", ");
}
