import type { ReactNode } from "react";

/** A list of names and values. A row whose value is undefined, null, false or "" is omitted. */
export function KeyValue({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-1 gap-x-6 gap-y-1.5 sm:grid-cols-[minmax(8rem,max-content)_1fr]">
      {rows
        .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== "")
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="pt-1 text-sm text-quiet sm:pt-0">{name}</dt>
            <dd className="min-w-0 wrap-anywhere">{value}</dd>
          </div>
        ))}
    </dl>
  );
}
