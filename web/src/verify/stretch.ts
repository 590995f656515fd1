// A part of an export's events, verified apart from what comes before it: what a Worker does.
import type { Bytes } from "./bytes";
import { verifyAttestation } from "./attestation";
import { string } from "./canonical";
import type { Head, JournalEvent } from "./event";
import { checkAfter, codes, readEvent } from "./event";
import { because, Fault } from "./fault";
import type { NotaryKey } from "./keyset";
import { leaf } from "./tree";

export interface Work {
  /** Whole lines, each with its line feed. */
  lines: Bytes;
  /** The number of the first one in the export. */
  line: number;
  /** What attestations are proven with; without a gateway, there is no key set. */
  notaries: readonly NotaryKey[];
  notaryOf: string | undefined;
}

export interface Place {
  what: string;
  seq?: number | undefined;
  line?: number | undefined;
}

/** What following the chain needs of events that verified. */
export interface Stretch {
  /** How many verified before the fault, or in all. */
  events: number;
  /** The first event as it was read, for the link to what is before it. */
  first?: { seq: number; prevHash: Bytes; at: number };
  last?: Head;
  /** The leaves of the tree, 32 bytes each. */
  leaves: Bytes;
  erased: number;
  attestations: number;
  erasedAttestations: number;
  /** Checkpoints and rotations, with their places. */
  signed: { index: number; event: JournalEvent }[];
  /** The first fault; without a number, it is that of the event which should follow. */
  fault?: Place;
  /** The first attestation that does not verify, in a chain that may be whole. */
  contradiction?: Place;
}

const lineFeed = 10;

/** Verifies the events in whole lines: their hashes, the links between them, their attestations. */
export async function verifyStretch(work: Work): Promise<Stretch> {
  const out: Stretch = { events: 0, leaves: new Uint8Array(), erased: 0, attestations: 0, erasedAttestations: 0, signed: [] };
  const leaves: Bytes[] = [];
  const attestations: Promise<Place | undefined>[] = [];
  for (let from = 0, line = work.line; from < work.lines.length; line++) {
    const end = work.lines.indexOf(lineFeed, from);
    try {
      const { event, check } = readEvent(work.lines.subarray(from, end));
      if (out.last === undefined) out.first = { seq: event.seq, prevHash: event.prevHash, at: event.at };
      else checkAfter(event, out.last);
      check();
      note(out, event);
      leaves.push(leaf(event.hash));
      if (event.code === codes.attested) {
        if (event.erased) out.erasedAttestations++;
        else attestations.push(checkAttestation(event, line, work));
      }
    } catch (thrown) {
      const seq = (thrown instanceof Fault ? thrown.seq : undefined) ?? (out.last === undefined ? undefined : out.last.seq + 1);
      out.fault = { what: because(thrown), line, seq };
      break;
    }
    from = end + 1;
  }
  const found = await Promise.all(attestations);
  out.attestations = found.length;
  const contradiction = found.find((place) => place !== undefined);
  if (contradiction !== undefined) out.contradiction = contradiction;
  out.leaves = new Uint8Array(32 * leaves.length);
  leaves.forEach((hash, i) => {
    out.leaves.set(hash, 32 * i);
  });
  return out;
}

function note(out: Stretch, event: JournalEvent): void {
  out.last = { seq: event.seq, hash: event.hash, at: event.at };
  if (event.erased) out.erased++;
  if (event.code === codes.checkpoint || event.code === codes.rotation) out.signed.push({ index: out.events, event });
  out.events++;
}

async function checkAttestation(event: JournalEvent, line: number, work: Work): Promise<Place | undefined> {
  try {
    if (work.notaryOf === undefined) throw new Fault("there is no key set to verify it with");
    const payload = event.payload ?? {};
    const got = await verifyAttestation(payload.envelope, work.notaries, work.notaryOf);
    if (got.attestationId !== string(payload.attestation_id, "attestation_id") || got.proposalId !== event.subject) throw new Fault(`it is that of another call, proposal ${got.proposalId}`);
    return undefined;
  } catch (thrown) {
    return { what: `the attestation in it: ${because(thrown)}`, seq: event.seq, line };
  }
}
