// The journal's filter: a line in the address, a message to the gateway, flags of a command.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { EventFilterSchema } from "../../gen/palyra/v1/journal_pb";
import { palyra } from "../../text/cli";
import type { Facet, Filter } from "../../ui/filter";
import { valuesOf } from "../../ui/filter";

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A moment as people write it: "2h" ago, or a date. Undefined for what is neither. */
export function moment(text: string, now: number): number | undefined {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  if (ago !== null) return now - Number(ago[1]) * (units[ago[2] ?? ""] ?? 0);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

function checkMoment(text: string): string | undefined {
  return moment(text, 0) === undefined ? `"${text}" is no time: write 2h, 3d or 2026-01-31T12:00:00Z` : undefined;
}

const atMost = (most: number) => (value: string) => (value.length > most ? `at most ${most} characters` : undefined);

export const facets: readonly Facet[] = [
  { id: "code", label: "Code, or its beginning", onlyInclude: true, check: atMost(16) },
  { id: "actor", label: "Actor", onlyInclude: true, check: atMost(128) },
  { id: "subject", label: "Subject", onlyInclude: true, check: atMost(128) },
  { id: "session", label: "Session", onlyInclude: true, check: atMost(64) },
  { id: "run", label: "Run", onlyInclude: true, check: atMost(64) },
  { id: "since", label: "Since", onlyInclude: true, check: checkMoment },
  { id: "until", label: "Until", onlyInclude: true, check: checkMoment },
];

/** The facets that ask for several values: the journal is asked for one of each. */
export function crowded(filter: Filter): string[] {
  return filter.terms.filter((term) => term.values.length > 1).map((term) => term.facet);
}

/** What the gateway is asked for; times that are said as "ago" count from now. */
export function eventFilter(filter: Filter, now: number): MessageInitShape<typeof EventFilterSchema> {
  const one = (facet: string) => valuesOf(filter, facet)[0] ?? "";
  const at = (facet: string) => {
    const time = moment(one(facet), now);
    return time === undefined ? {} : { [facet]: timestampFromMs(time) };
  };
  return { code: one("code"), actor: one("actor"), subject: one("subject"), session: one("session"), run: one("run"), ...at("since"), ...at("until") };
}

/** The command that lists the same. */
export function listCommand(filter: Filter): string {
  return palyra("journal", "list", "--last", "200", ...filter.terms.flatMap((term) => [`--${term.facet}`, term.values[0] ?? ""]));
}
