// The journal's filter, as text in the address, as a request and as flags of a command.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { EventFilterSchema } from "../../gen/palyra/v1/journal_pb";
import { palyra } from "../../text/cli";
import type { Facet, Filter } from "../../ui/filter";
import { valuesOf } from "../../ui/filter";

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses an age ("2h") or a date; returns undefined for other text. */
export function parseMoment(text: string, now: number): number | undefined {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  if (ago !== null) return now - Number(ago[1]) * (units[ago[2] ?? ""] ?? 0);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

function checkMoment(text: string): string | undefined {
  return parseMoment(text, 0) === undefined ? `"${text}" is not a valid time: use 2h, 3d or 2026-01-31T12:00:00Z` : undefined;
}

const atMost = (maxLength: number) => (value: string) => (value.length > maxLength ? `at most ${maxLength} characters` : undefined);

export const facets: readonly Facet[] = [
  { id: "code", label: "Code or prefix", onlyInclude: true, check: atMost(16) },
  { id: "actor", label: "Actor", onlyInclude: true, check: atMost(128) },
  { id: "subject", label: "Subject", onlyInclude: true, check: atMost(128) },
  { id: "session", label: "Session", onlyInclude: true, check: atMost(64) },
  { id: "run", label: "Run", onlyInclude: true, check: atMost(64) },
  { id: "since", label: "Since", onlyInclude: true, check: checkMoment },
  { id: "until", label: "Until", onlyInclude: true, check: checkMoment },
];

/** Returns the facets with several values, which the journal does not support. */
export function multiValuedFacets(filter: Filter): string[] {
  return filter.terms.filter((term) => term.values.length > 1).map((term) => term.facet);
}

/** Returns the request for a filter; ages are relative to now. */
export function eventFilter(filter: Filter, now: number): MessageInitShape<typeof EventFilterSchema> {
  const one = (facet: string) => valuesOf(filter, facet)[0] ?? "";
  const at = (facet: string) => {
    const time = parseMoment(one(facet), now);
    return time === undefined ? {} : { [facet]: timestampFromMs(time) };
  };
  return { code: one("code"), actor: one("actor"), subject: one("subject"), session: one("session"), run: one("run"), ...at("since"), ...at("until") };
}

/** Returns the equivalent command. */
export function listCommand(filter: Filter): string {
  return palyra("journal", "list", "--last", "200", ...filter.terms.flatMap((term) => [`--${term.facet}`, term.values[0] ?? ""]));
}
