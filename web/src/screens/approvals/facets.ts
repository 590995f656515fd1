import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Approval, ExportApprovalsRequestSchema, ListApprovalsRequestSchema } from "../../gen/palyra/v1/approvals_pb";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Facet, Filter } from "../../ui/filter";
import { matches, valuesOf } from "../../ui/filter";
import { toMillis } from "../../text/time";
import { states, types, nameOf } from "./words";

const age = /^(\d+)(m|h|d)$/;
const sizes: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The facets of the approvals; the gateway applies them. */
export const facets: readonly Facet[] = [
  { id: "tool", label: "Tool" },
  { id: "severity", label: "Severity", values: ["low", "medium", "high", "critical"] },
  { id: "requester", label: "Requester" },
  { id: "state", label: "State", values: Object.keys(states) },
  { id: "type", label: "Type", values: Object.keys(types) },
  { id: "order", label: "Order", values: ["oldest"], onlyInclude: true },
  {
    id: "newer",
    label: "Newer than",
    onlyInclude: true,
    check: (value) => (age.test(value) ? undefined : `"${value}" is not a valid age: use 30m, 8h or 7d`),
  },
];

/** Whether the oldest approvals are first. */
export function oldestFirst(filter: Filter): boolean {
  return valuesOf(filter, "order")[0] === "oldest";
}

/** Returns the states of the filter; the default is pending. */
function statesOf(filter: Filter): string[] {
  const named = valuesOf(filter, "state");
  return named.length > 0 || valuesOf(filter, "state", true).length > 0 ? named : ["pending"];
}

/** Returns the list request for a filter. */
export function requestOf(filter: Filter, now: number): MessageInitShape<typeof ListApprovalsRequestSchema> {
  const newer = since(filter, now);
  return {
    states: statesOf(filter).flatMap((s) => states[s] ?? []),
    exceptStates: valuesOf(filter, "state", true).flatMap((s) => states[s] ?? []),
    subjectTypes: valuesOf(filter, "type").flatMap((t) => types[t] ?? []),
    exceptSubjectTypes: valuesOf(filter, "type", true).flatMap((t) => types[t] ?? []),
    tools: valuesOf(filter, "tool"),
    exceptTools: valuesOf(filter, "tool", true),
    severities: valuesOf(filter, "severity"),
    exceptSeverities: valuesOf(filter, "severity", true),
    principals: valuesOf(filter, "requester"),
    exceptPrincipals: valuesOf(filter, "requester", true),
    ...(newer === undefined ? {} : { since: timestampFromMs(newer) }),
    ascending: oldestFirst(filter),
  };
}

/** Returns the export request for a filter: its states and time. */
export function exportOf(filter: Filter, now: number): MessageInitShape<typeof ExportApprovalsRequestSchema> {
  const newer = since(filter, now);
  return { states: valuesOf(filter, "state").flatMap((s) => states[s] ?? []), ...(newer === undefined ? {} : { since: timestampFromMs(newer) }) };
}

/** Returns the equivalent flags of `palyra approvals export`. */
export function exportFlags(filter: Filter): string[] {
  const named = valuesOf(filter, "state");
  return [...(named.length > 0 ? ["--state", named.join(",")] : []), ...valuesOf(filter, "newer").slice(0, 1).flatMap((age) => ["--since", age])];
}

function since(filter: Filter, now: number): number | undefined {
  const found = age.exec(valuesOf(filter, "newer")[0] ?? "");
  return found === null ? undefined : now - Number(found[1]) * (sizes[found[2] ?? ""] ?? 0);
}

/** Whether an approval from the stream matches the filter; same rules as the gateway. */
export function matchesFilter(filter: Filter, approval: Approval, now: number): boolean {
  const newer = since(filter, now);
  if (newer !== undefined && (toMillis(approval.createdAt) ?? 0) < newer) return false;
  const state = nameOf(states, approval.state);
  if (!statesOf(filter).includes(state) && statesOf(filter).length > 0) return false;
  const rest: Filter = { ...filter, terms: filter.terms.filter((t) => t.facet !== "newer" && t.facet !== "order" && !(t.facet === "state" && !t.exclude)) };
  return matches(rest, (facet) => {
    switch (facet) {
      case "tool":
        return [approval.prompt?.tool ?? ""];
      case "severity":
        return [approval.severity];
      case "requester":
        return [approval.requestedBy, approval.onBehalfOf].filter((p) => p !== "");
      case "state":
        return [state];
      case "type":
        return [nameOf(types, approval.subjectType)];
      default:
        return [];
    }
  });
}

/** Returns the equivalent flags of `palyra approvals list`. */
export function flagsOf(filter: Filter): string[] {
  const flags: string[] = [];
  const add = (name: string, values: readonly string[]) => {
    if (values.length > 0) flags.push(`--${name}`, values.join(","));
  };
  for (const [facet, flag] of Object.entries({ tool: "tool", severity: "severity", requester: "principal", type: "type" })) {
    add(flag, valuesOf(filter, facet));
    add(`except-${flag}`, valuesOf(filter, facet, true));
  }
  add("state", statesOf(filter));
  add("except-state", valuesOf(filter, "state", true));
  add("since", valuesOf(filter, "newer").slice(0, 1));
  if (oldestFirst(filter)) flags.push("--oldest");
  return flags;
}
