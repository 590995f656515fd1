// The verification of an export, from its bytes to the result for the user.
import { hex } from "./bytes";
import type { Summary } from "./export";
import { verifyExport } from "./export";
import { messageOf, Fault } from "./fault";
import { Pool, workerCount } from "./pool";
import type { Pins } from "./trust";
import { evaluateTrust } from "./trust";

/** The state of a gateway's journal at an earlier verification. */
export interface VerifiedState {
  gateway: string;
  /** The CA in the export; absent if the export had none. */
  ca?: string;
  size: number;
  /** The root of the tree of that size, in hex. */
  root: string;
  at: string;
}

export interface Outcome {
  summary: Summary;
  ca: string | undefined;
  /** Whether the journal belongs to the gateway with the pinned key. */
  originProven: boolean;
  /** The state for the comparison by the next verification. */
  lastState: VerifiedState;
}

export interface Failure {
  what: string;
  /** The first invalid or missing event. */
  seq: number | undefined;
  line: number | undefined;
}

export interface Progress {
  events: number;
  seconds: number;
}

// The minimum interval of progress reports in seconds: hundreds of stretches are verified per second.
const progressInterval = 0.1;

/** Verifies an export in Workers of this browser. Throws a Fault, or the error of the source. */
export async function verifyJournal(source: AsyncIterable<Uint8Array>, makeWorker: () => Worker, pins: Pins, lastState: VerifiedState | undefined, progress: (p: Progress) => void): Promise<Outcome> {
  const pool = new Pool(makeWorker, workerCount());
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  let lastReport = 0;
  let ca: string | undefined;
  try {
    const summary = await verifyExport(source, {
      key: pins.key,
      trust: async (header) => {
        if (lastState !== undefined && lastState.gateway !== header.gateway) throw new Fault(`the export is of gateway ${header.gateway}, an earlier verification was for ${lastState.gateway}`);
        const judged = await evaluateTrust(header, pins);
        ca = judged.root;
        return judged.trust;
      },
      knownRoots: lastState === undefined ? [] : [lastState],
      verify: pool.verify,
      parallel: pool.parallel,
      progress: (events) => {
        if (seconds() - lastReport < progressInterval) return;
        lastReport = seconds();
        progress({ events, seconds: lastReport });
      },
    });
    if (lastState !== undefined && summary.last < lastState.size) throw new Fault(`an earlier verification covered ${lastState.size} events, the journal ends at ${summary.last}: it was rolled back`, { seq: summary.last + 1 });
    progress({ events: summary.events, seconds: seconds() });
    const { size, root } = summary.signed;
    return { summary, ca, originProven: summary.keyPinned, lastState: { gateway: summary.gateway, ...(ca === undefined ? {} : { ca }), size, root: hex(root), at: new Date().toISOString() } };
  } finally {
    pool.terminate();
  }
}

export function failureOf(thrown: unknown): Failure | undefined {
  return thrown instanceof Fault ? { what: messageOf(thrown), seq: thrown.seq, line: thrown.line } : undefined;
}

/** Returns the problem with a text to pin, or undefined. */
export function pinProblem(text: string): string | undefined {
  if (/^sha256:[0-9a-f]{64}$/.test(text) || /^[^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*$/.test(text)) return undefined;
  return "Enter the CA's fingerprint (sha256: and 64 hex digits, from `palyra attest keys`) or the checkpoint key (name+hash+base64).";
}

/** Converts a pinned text to a CA fingerprint or a key. */
export function pinsOf(text: string): Pins {
  if (text === "") return {};
  return text.startsWith("sha256:") ? { root: text } : { key: text };
}

/** Returns the first line of a result: what is proven. */
export function describeProof(outcome: Outcome): string {
  return outcome.originProven
    ? "Verified: integrity and origin, with the pinned key."
    : "Verified: integrity only. The origin is not proven, because the keys are from the export itself and no key is pinned.";
}
