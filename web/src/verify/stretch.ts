// The verification of consecutive events, independent of earlier ones. It runs in a Worker.
import type { Bytes } from "./bytes";
import { verifyAttestation } from "./attestation";
import { string } from "./canonical";
import type { Head, JournalEvent } from "./event";
import { checkAfter, codes, readEvent } from "./event";
import { messageOf, Fault } from "./fault";
import type { NotaryKey } from "./keyset";
import { leaf } from "./tree";

export interface Work {
  /** Complete lines with their line feeds. */
  lines: Bytes;
  /** The number of the first line in the export. */
  line: number;
  /** The keys for attestations; there is no key set if notaryOf is undefined. */
  notaries: readonly NotaryKey[];
  notaryOf: string | undefined;
}

export interface FaultData {
  what: string;
  seq?: number | undefined;
  line?: number | undefined;
}

/** The result for a stretch, as required to join the chain. */
export interface Stretch {
  /** The number of events before the fault, or of all events. */
  events: number;
  /** The first event, for the link to the previous stretch. */
  first?: { seq: number; prevHash: Bytes; at: number };
  last?: Head;
  /** The leaves of the tree, 32 bytes each. */
  leaves: Bytes;
  erased: number;
  attestations: number;
  erasedAttestations: number;
  /** The checkpoints and rotations, with their indexes. */
  signed: { index: number; event: JournalEvent }[];
  /** The first fault; without seq it concerns the next expected event. */
  fault?: FaultData;
  /** The first invalid attestation; the chain itself can be valid. */
  contradiction?: FaultData;
}

const lineFeed = 10;

/** Verifies events: their hashes, the links between them, and their attestations. */
export async function verifyStretch(work: Work): Promise<Stretch> {
  const out: Stretch = { events: 0, leaves: new Uint8Array(), erased: 0, attestations: 0, erasedAttestations: 0, signed: [] };
  const leaves: Bytes[] = [];
  const attestations: Promise<FaultData | undefined>[] = [];
  for (let from = 0, line = work.line; from < work.lines.length; line++) {
    const end = work.lines.indexOf(lineFeed, from);
    try {
      const { event, check } = readEvent(work.lines.subarray(from, end));
      if (out.last === undefined) out.first = { seq: event.seq, prevHash: event.prevHash, at: event.at };
      else checkAfter(event, out.last);
      check();
      record(out, event);
      leaves.push(leaf(event.hash));
      if (event.code === codes.attested) {
        if (event.erased) out.erasedAttestations++;
        else attestations.push(checkAttestation(event, line, work));
      }
    } catch (thrown) {
      const seq = (thrown instanceof Fault ? thrown.seq : undefined) ?? (out.last === undefined ? undefined : out.last.seq + 1);
      out.fault = { what: messageOf(thrown), line, seq };
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

function record(out: Stretch, event: JournalEvent): void {
  out.last = { seq: event.seq, hash: event.hash, at: event.at };
  if (event.erased) out.erased++;
  if (event.code === codes.checkpoint || event.code === codes.rotation) out.signed.push({ index: out.events, event });
  out.events++;
}

async function checkAttestation(event: JournalEvent, line: number, work: Work): Promise<FaultData | undefined> {
  try {
    if (work.notaryOf === undefined) throw new Fault("the export has no key set to verify it");
    const payload = event.payload ?? {};
    const attestation = await verifyAttestation(payload.envelope, work.notaries, work.notaryOf);
    if (attestation.attestationId !== string(payload.attestation_id, "attestation_id") || attestation.proposalId !== event.subject) throw new Fault(`it is for another call, proposal ${attestation.proposalId}`);
    return undefined;
  } catch (thrown) {
    return { what: `attestation: ${messageOf(thrown)}`, seq: event.seq, line };
  }
}
