import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { absolute, length, ms, relative } from "../text/time";
import { useNow } from "./clock";
import { cx } from "./cx";

/** A moment: how long ago, and in full. */
export function Time({ at, full }: { at: Timestamp | undefined; full?: boolean }) {
  const now = useNow();
  const when = ms(at);
  if (when === undefined) return <span className="text-quiet">never</span>;
  return (
    <time dateTime={new Date(when).toISOString()} title={absolute(when)} className="whitespace-nowrap tabular-nums">
      {relative(when, now)}
      {full === true && <span className="whitespace-normal text-quiet"> · {absolute(when)}</span>}
    </time>
  );
}

/** The time that is left, by the gateway's clock. With loud, less than half a minute is said aloud, once. */
export function Countdown({ until, over = "expired", loud }: { until: Timestamp | undefined; over?: string; loud?: boolean }) {
  const now = useNow();
  const end = ms(until);
  if (end === undefined) return null;
  const left = end - now;
  const late = left < 30_000;
  return (
    <span className="whitespace-nowrap">
      <span {...(loud === true ? { role: "timer" } : {})} className={cx("tabular-nums", late && "font-semibold text-bad")}>
        {left <= 0 ? over : `${length(left)} left`}
      </span>
      {loud === true && (
        <span className="sr-only" role="alert">
          {left > 0 && late ? "Less than 30 seconds left." : ""}
        </span>
      )}
    </span>
  );
}
