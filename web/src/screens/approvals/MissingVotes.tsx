import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { Notice } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { isPending } from "./decide";

/** The missing votes: "1 of 2 approved, requires role security". */
export function MissingVotes({ approval }: { approval: Approval }) {
  if (!isPending(approval)) return null;
  const text = describeMissingVotes(approval);
  if (text === "") return null;
  return (
    <Notice tone="plain">
      <span className="font-semibold">Still required: </span>
      <Untrusted text={text} />
    </Notice>
  );
}

export function describeMissingVotes(approval: Approval): string {
  const needs = approval.needs;
  if (needs === undefined) return approval.missing;
  const parts = [`${needs.have} of ${needs.want} approved`];
  if (needs.role !== "") parts.push(`requires role ${needs.role}`);
  if (needs.surfaces.length > 0) parts.push(`on ${needs.surfaces.join(" or ")}`);
  if (needs.paired) parts.push("from a paired device");
  if (needs.presence) parts.push("with proof of presence");
  return parts.join(", ");
}
