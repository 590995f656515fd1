import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { durationMs as wktDurationMs, timestampDate } from "@bufbuild/protobuf/wkt";

/** Milliseconds of a timestamp; undefined for none. */
export function ms(at: Timestamp | undefined): number | undefined {
  return at === undefined ? undefined : timestampDate(at).getTime();
}

/** Milliseconds of a duration; 0 for none. */
export function durationMs(d: Duration | undefined): number {
  return d === undefined ? 0 : wktDurationMs(d);
}

const units: readonly [string, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
];

/** A length of time in its two largest units: "9m 58s", "2d 4h", "0s". */
export function length(millis: number): string {
  let rest = Math.max(0, Math.floor(millis / 1000) * 1000);
  const parts: string[] = [];
  for (const [unit, size] of units) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) parts.push(`${n}${unit}`);
    if (parts.length === 2 || (parts.length === 1 && n === 0)) break;
  }
  return parts.length === 0 ? "0s" : parts.join(" ");
}

/** How a moment stands to now: "3m ago", "in 9m 58s". */
export function relative(at: number, now: number): string {
  const d = at - now;
  if (Math.abs(d) < 1000) return "now";
  return d < 0 ? `${length(-d)} ago` : `in ${length(d)}`;
}

// To make one takes longer than to lay out a row of a table.
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** A moment in full, in the reader's time zone. */
export function absolute(at: number): string {
  return full.format(at);
}
