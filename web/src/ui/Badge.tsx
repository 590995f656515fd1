import type { ReactNode } from "react";
import { cx } from "./cx";

export type Tone = "plain" | "good" | "warn" | "bad" | "accent";

const tones: Record<Tone, string> = {
  plain: "bg-sunk text-ink",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  accent: "border border-accent text-accent",
};

/** A word with a tone. The word must carry the meaning without the colour. */
export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={cx("inline-flex items-center gap-1 rounded px-1.5 py-0.5 text-xs font-semibold whitespace-nowrap", tones[tone])}>{children}</span>;
}

const severities: Record<string, { tone: Tone; sign: string }> = {
  low: { tone: "plain", sign: "▁" },
  medium: { tone: "accent", sign: "▃" },
  high: { tone: "warn", sign: "▅" },
  critical: { tone: "bad", sign: "▇" },
};

/** A severity as word, sign and colour. */
export function Severity({ level }: { level: string }) {
  const severity = severities[level] ?? { tone: "plain", sign: "" };
  return (
    <Badge tone={severity.tone}>
      <span aria-hidden>{severity.sign}</span>
      {level === "" ? "no severity" : level}
    </Badge>
  );
}
