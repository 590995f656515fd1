import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { indentJson } from "../../text/json";
import type { Draft } from "../policies/words";

/**
 * Returns a policy draft for a frequently requested call, with the call to simulate. The draft is
 * commented out and allows nothing: the user writes the conditions.
 */
export function policyDraftFor(approval: Approval): Draft {
  const tool = approval.prompt?.tool ?? "";
  const principal = approval.requestedBy;
  const colon = principal.indexOf(":");
  const name = principal.slice(colon + 1);
  const entity = { user: "User", agent: "Agent", service: "Service" }[principal.slice(0, Math.max(colon, 0))];
  const words = `${tool}-${name}`.replaceAll(/[^A-Za-z0-9]+/g, "-").toLowerCase();
  const text = `// The same call was requested ${String(approval.prompt?.askedLastWeek ?? 0n)} times in the 7 days before.
// Write conditions for the calls that run without approval, and simulate the call.
// A sensitive tool also requires @waives("approval: <why>") (docs/policy.md).
//
// @id(${JSON.stringify(`team.${words}`)})
// @reason("...")
// permit(${entity === undefined ? "principal" : `principal == ${entity}::${JSON.stringify(name)}`}, action == Action::${JSON.stringify(`tool.execute/${tool}`)}, resource)
// when { ... };
`;
  return { name: `50-${words}.cedar`, text, call: { tool, principal, input: indentJson(new TextDecoder().decode(approval.prompt?.argumentsJson)), facts: "" } };
}
