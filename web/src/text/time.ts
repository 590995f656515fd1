import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { durationMs as wktDurationMs, timestampDate } from "@bufbuild/protobuf/wkt";

/** Returns a timestamp in milliseconds, or undefined if it is absent. */
export function toMillis(at: Timestamp | undefined): number | undefined {
  return at === undefined ? undefined : timestampDate(at).getTime();
}

/** Returns a duration in milliseconds, or 0 if it is absent. */
export function durationMillis(d: Duration | undefined): number {
  return d === undefined ? 0 : wktDurationMs(d);
}

const units: readonly [string, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
];

/** Formats a duration in its two largest units: "9m 58s", "2d 4h", "0s". */
export function formatDuration(millis: number): string {
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

/** Formats a time relative to now: "3m ago", "in 9m 58s". */
export function formatRelative(at: number, now: number): string {
  const d = at - now;
  if (Math.abs(d) < 1000) return "now";
  return d < 0 ? `${formatDuration(-d)} ago` : `in ${formatDuration(d)}`;
}

// Cached: creating a formatter takes longer than laying out a table row.
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Formats a time in full, in the reader's time zone. */
export function formatAbsolute(at: number): string {
  return full.format(at);
}
