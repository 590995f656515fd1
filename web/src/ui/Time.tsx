import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { formatAbsolute, formatDuration, toMillis, formatRelative } from "../text/time";
import { useNow } from "./clock";
import { cx } from "./cx";

/** A time relative to now, optionally with the full date. */
export function Time({ at, full }: { at: Timestamp | undefined; full?: boolean }) {
  const now = useNow();
  const when = toMillis(at);
  if (when === undefined) return <span className="text-quiet">never</span>;
  return (
    <time dateTime={new Date(when).toISOString()} title={formatAbsolute(when)} className="whitespace-nowrap tabular-nums">
      {formatRelative(when, now)}
      {full === true && <span className="whitespace-normal text-quiet"> · {formatAbsolute(when)}</span>}
    </time>
  );
}

/** The remaining time by the gateway's clock. With loud, it announces once that less than half a minute is left. */
export function Countdown({ until, expiredLabel = "expired", announce }: { until: Timestamp | undefined; expiredLabel?: string; announce?: boolean }) {
  const now = useNow();
  const end = toMillis(until);
  if (end === undefined) return null;
  const left = end - now;
  const late = left < 30_000;
  return (
    <span className="whitespace-nowrap">
      <span {...(announce === true ? { role: "timer" } : {})} className={cx("tabular-nums", late && "font-semibold text-bad")}>
        {left <= 0 ? expiredLabel : `${formatDuration(left)} left`}
      </span>
      {announce === true && (
        <span className="sr-only" role="alert">
          {left > 0 && late ? "Less than 30 seconds left." : ""}
        </span>
      )}
    </span>
  );
}
