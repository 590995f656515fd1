import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { layOut } from "../../text/json";
import type { Draft } from "../policies/words";

/**
 * The beginning of a policy for calls like the one that people are asked about again and
 * again, with the call to simulate. As it stands it allows nothing: what it lets through is
 * for a person to say.
 */
export function ruleFor(approval: Approval): Draft {
  const tool = approval.prompt?.tool ?? "";
  const principal = approval.requestedBy;
  const colon = principal.indexOf(":");
  const name = principal.slice(colon + 1);
  const entity = { user: "User", agent: "Agent", service: "Service" }[principal.slice(0, Math.max(colon, 0))];
  const words = `${tool}-${name}`.replaceAll(/[^A-Za-z0-9]+/g, "-").toLowerCase();
  const text = `// People were asked about the same ${String(approval.prompt?.askedLastWeek ?? 0n)} times in the 7 days before.
// Say in the conditions which of these calls run without a question, and simulate the call.
// Of a sensitive tool it takes @waives("approval: <why>") too (docs/policy.md).
//
// @id(${JSON.stringify(`team.${words}`)})
// @reason("...")
// permit(${entity === undefined ? "principal" : `principal == ${entity}::${JSON.stringify(name)}`}, action == Action::${JSON.stringify(`tool.execute/${tool}`)}, resource)
// when { ... };
`;
  return { name: `50-${words}.cedar`, text, call: { tool, principal, input: layOut(new TextDecoder().decode(approval.prompt?.argumentsJson)), facts: "" } };
}
