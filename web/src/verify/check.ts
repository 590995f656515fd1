// One verification, from the bytes to what a person is told of it.
import { hex } from "./bytes";
import type { Summary } from "./export";
import { verifyExport } from "./export";
import { because, Fault } from "./fault";
import { Pool, workersHere } from "./pool";
import type { Pins } from "./trust";
import { judge } from "./trust";

/** What an earlier check saw of a gateway. */
export interface Seen {
  gateway: string;
  /** The CA that its export named; absent when it named none. */
  ca?: string;
  size: number;
  /** The root of the tree of that size, in hex. */
  root: string;
  at: string;
}

export interface Outcome {
  summary: Summary;
  ca: string | undefined;
  /** Whether the journal is that of the gateway whose keys were pinned. */
  originProven: boolean;
  /** What is compared by the next check. */
  seen: Seen;
}

export interface Failure {
  what: string;
  /** The first event that is wrong or missing. */
  seq: number | undefined;
  line: number | undefined;
}

export interface Progress {
  events: number;
  seconds: number;
}

// Hundreds of stretches are verified in a second, and a person reads some numbers of it.
const tellEvery = 0.1;

/** Verifies an export in Workers of this browser. What it throws is a Failure's fault, or the source's own error. */
export async function check(source: AsyncIterable<Uint8Array>, makeWorker: () => Worker, pins: Pins, seen: Seen | undefined, progress: (p: Progress) => void): Promise<Outcome> {
  const pool = new Pool(makeWorker, workersHere());
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  let told = 0;
  let ca: string | undefined;
  try {
    const summary = await verifyExport(source, {
      key: pins.key,
      trust: async (header) => {
        if (seen !== undefined && seen.gateway !== header.gateway) throw new Fault(`the export is of gateway ${header.gateway}, and an earlier check saw ${seen.gateway}`);
        const judged = await judge(header, pins);
        ca = judged.root;
        return judged.trust;
      },
      remembered: seen === undefined ? [] : [seen],
      verify: pool.verify,
      parallel: pool.parallel,
      progress: (events) => {
        if (seconds() - told < tellEvery) return;
        told = seconds();
        progress({ events, seconds: told });
      },
    });
    if (seen !== undefined && summary.last < seen.size) throw new Fault(`an earlier check saw ${seen.size} events, the journal ends at ${summary.last}: it was rolled back`, { seq: summary.last + 1 });
    progress({ events: summary.events, seconds: seconds() });
    const { size, root } = summary.signed;
    return { summary, ca, originProven: summary.keyPinned, seen: { gateway: summary.gateway, ...(ca === undefined ? {} : { ca }), size, root: hex(root), at: new Date().toISOString() } };
  } finally {
    pool.end();
  }
}

export function failureOf(thrown: unknown): Failure | undefined {
  return thrown instanceof Fault ? { what: because(thrown), seq: thrown.seq, line: thrown.line } : undefined;
}

/** What is wrong with a text that should be pinned; undefined where nothing is. */
export function pinProblem(text: string): string | undefined {
  if (/^sha256:[0-9a-f]{64}$/.test(text) || /^[^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*$/.test(text)) return undefined;
  return "Give the CA's fingerprint (sha256: and 64 hex digits, from `palyra attest keys`) or the checkpoint key (name+hash+base64).";
}

/** A pinned text as what it is. */
export function pinsOf(text: string): Pins {
  if (text === "") return {};
  return text.startsWith("sha256:") ? { root: text } : { key: text };
}

/** The first line of a result: what it proves, and what it does not. */
export function proves(outcome: Outcome): string {
  return outcome.originProven
    ? "Whole, and signed by the gateway whose key is pinned here."
    : "Whole. Whose it is was not proven: the keys that it was verified with came with it, and none is pinned.";
}
