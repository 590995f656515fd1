import type { ReactNode } from "react";
import { failure } from "../api/errors";
import { Button } from "./Button";
import { Untrusted } from "./Untrusted";

/** The state of an empty list, with a hint on how to add entries. */
export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div data-empty="" className="rounded-lg border border-dashed border-edge px-4 py-10 text-center">
      <p className="font-semibold">{title}</p>
      {children !== undefined && <div className="mt-1 text-quiet">{children}</div>}
    </div>
  );
}

/** An error with its message, remedy and reason code. */
export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const f = failure(error);
  return (
    <div role="alert" className="rounded-lg border border-bad bg-bad-soft px-4 py-3 text-ink">
      <p className="font-semibold">
        <Untrusted text={f.message} />
      </p>
      {f.remedy !== "" && (
        <p className="mt-1">
          <CommandText text={f.remedy} />
        </p>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-3 text-sm">
        {f.reason !== "" && <code className="font-mono">{f.reason}</code>}
        {retry !== undefined && (
          <Button size="small" onClick={retry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

/** The state while data is loading. */
export function Loading({ what }: { what: string }) {
  return (
    <p role="status" className="px-1 py-6 text-quiet">
      Loading {what}…
    </p>
  );
}

/** A notice above other content. */
export function Notice({ tone = "plain", children }: { tone?: "plain" | "good" | "warn" | "bad"; children: ReactNode }) {
  const tones = {
    plain: "border-line bg-panel",
    good: "border-good bg-good-soft",
    warn: "border-warn bg-warn-soft",
    bad: "border-bad bg-bad-soft",
  };
  return <div className={`rounded-lg border px-3 py-2 ${tones[tone]}`}>{children}</div>;
}

/** Text of the gateway, with commands between backticks. */
export function CommandText({ text }: { text: string }) {
  return text.split("`").map((part, i, all) =>
    // A part with an odd index is between two backticks. The index is the only identity of a part.
    i % 2 === 1 && i < all.length - 1 ? (
      <code key={i} className="font-mono">
        <Untrusted text={part} />
      </code>
    ) : (
      <Untrusted key={i} text={part} />
    ),
  );
}

/** A list of points under a heading; renders nothing if the list is empty. */
export function PointList({ tone, title, texts }: { tone: "plain" | "warn" | "bad"; title: string; texts: readonly string[] }) {
  if (texts.length === 0) return null;
  return (
    <Notice tone={tone}>
      <h2 className="font-semibold">{title}</h2>
      <ul className="list-disc pl-5">
        {texts.map((text) => (
          <li key={text}>
            <CommandText text={text} />
          </li>
        ))}
      </ul>
    </Notice>
  );
}
