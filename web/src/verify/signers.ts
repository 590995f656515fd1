// The checkpoint keys and the tree sizes that each key signs.
import { utf8, hex } from "./bytes";
import { object, string } from "./canonical";
import type { JournalEvent } from "./event";
import { micros } from "./event";
import { messageOf, Fault } from "./fault";
import type { Checkpoint, NoteKey } from "./note";
import { checkpointText, noteKey, openNote, readNote, signedBy } from "./note";
import { sha256 } from "./sha256";

/** A checkpoint key with the tree sizes that it signs; last is absent for the current key. */
export interface SigningKey {
  verifier: string;
  first: number;
  last?: number;
}

interface Signer extends SigningKey {
  key: NoteKey;
  /** Whether a rotation in the journal has replaced the key. */
  isReplaced: boolean;
  /** Whether a rotation in the journal must still introduce the key. */
  awaitsRotation: boolean;
  /** Whether the sizes of the key are unknown. */
  loose: boolean;
}

/** The replacement of a checkpoint key. */
export interface Rotation {
  old: string;
  next: string;
  last: number;
  /** Microseconds since 1970. */
  at: number;
  certificate: string;
}

export class Signers {
  readonly #list: Signer[] = [];

  constructor(keys: readonly SigningKey[], after: number, hasUnknownSizes: boolean) {
    for (const key of keys) this.add(key, hasUnknownSizes);
    for (const signer of this.#list) signer.awaitsRotation = signer.first > after && signer.first > 0;
  }

  add(key: SigningKey, loose = false): void {
    if (this.has(key.verifier)) throw new Fault(`the verifier key ${key.verifier} occurs twice`);
    this.#list.push({ ...key, key: noteKey(key.verifier), isReplaced: false, awaitsRotation: false, loose });
  }

  find(verifier: string): Signer | undefined {
    return this.#list.find((signer) => signer.verifier === verifier);
  }

  has(verifier: string): boolean {
    return this.find(verifier) !== undefined;
  }

  /** Returns the keys with their sizes; empty if the sizes are unknown. */
  keys(): SigningKey[] {
    if (this.#list.some((signer) => signer.loose)) return [];
    return this.#list.map(({ verifier, first, last }) => ({ verifier, first, ...(last === undefined ? {} : { last }) }));
  }

  /** Parses and verifies a checkpoint of a gateway. */
  async checkpoint(text: string, gateway: string): Promise<Checkpoint> {
    const { note, key } = await openNote(text, (name, id) => this.#list.find((signer) => signer.key.name === name && signer.key.id === id)?.key).catch((thrown: unknown) => {
      throw new Fault(`checkpoint: ${messageOf(thrown)}`);
    });
    const cp = checkpointText(note.text, text);
    if (cp.origin !== gateway) throw new Fault(`checkpoint: it is of gateway ${JSON.stringify(cp.origin)}, not ${JSON.stringify(gateway)}`);
    if (key.name !== cp.origin) throw new Fault(`checkpoint: ${JSON.stringify(key.name)} signed for ${JSON.stringify(cp.origin)}`);
    const signer = this.find(key.text);
    if (signer === undefined) throw new Fault("checkpoint: its key is unknown");
    const by = `checkpoint: it covers ${cp.size} events and is signed by the key ${signer.verifier}, which signed for no`;
    if (signer.last !== undefined && cp.size > signer.last) throw new Fault(`${by} more than ${signer.last}`);
    if (cp.size < signer.first) throw new Fault(`${by} less than ${signer.first}`);
    if (signer.awaitsRotation) throw new Fault(`checkpoint: it is signed by the key ${signer.verifier}, and no event before it says that this key took over`);
    return cp;
  }

  /** Applies the rotation of an event; signed is the size of the latest checkpoint. */
  async rotate(e: JournalEvent, gateway: string, signed: number, admit: ((r: Rotation) => Promise<void>) | undefined): Promise<void> {
    const r = await readRotation(e, gateway);
    const bad = (what: string) => new Fault(`the rotation of the checkpoint key: ${what}`, { seq: e.seq });
    const old = this.find(r.old);
    if (old === undefined) throw bad(`the old key ${r.old} is not known`);
    if (old.isReplaced) throw bad(`the key ${r.old} was replaced before`);
    if (old.last !== undefined && old.last !== r.last) throw bad(`it lets the key ${r.old} sign for ${r.last} events, the key set for ${old.last}`);
    if (r.last < old.first || r.last < signed) throw bad(`it ends the key ${r.old} at ${r.last} events, and a checkpoint over ${signed} was signed`);
    old.last = r.last;
    old.isReplaced = true;
    const next = this.find(r.next);
    if (next === undefined) {
      await admit?.(r).catch((thrown: unknown) => {
        throw bad(`the new key ${r.next} is not one of this gateway: ${messageOf(thrown)}`);
      });
      this.add({ verifier: r.next, first: r.last + 1 });
      return;
    }
    if (next.loose && next.first === 0) next.first = r.last + 1;
    if (next.first !== r.last + 1 || next.isReplaced) throw bad(`it lets the key ${r.next} sign from ${r.last + 1} events on, the key set from ${next.first}`);
    next.awaitsRotation = false;
  }
}

const tag = "palyra.dev/journal/key-rotation/v1";

/** Parses the statement of a rotation and verifies both signatures with its keys. */
async function readRotation(e: JournalEvent, gateway: string): Promise<Rotation> {
  try {
    const payload = object(e.payload, ["certificate_chain", "note"]);
    const certificate = string(payload.certificate_chain, "certificate_chain");
    const note = readNote(string(payload.note, "note"));
    const lines = note.text.split("\n");
    const [, of, oldText = "", nextText = "", lastText = "", atText, sum] = lines;
    const at = micros(atText);
    const last = Number(lastText);
    if (lines.length !== 8 || lines[0] !== tag || of !== gateway || at === undefined) throw new Fault("it is not a statement of this gateway");
    if (!/^[1-9]\d*$/.test(lastText) || !Number.isSafeInteger(last)) throw new Fault(`its last size is ${JSON.stringify(lastText)}`);
    if (sum !== hex(sha256(utf8(certificate)))) throw new Fault("it has another certificate");
    const old = noteKey(oldText);
    const next = noteKey(nextText);
    if (old.text === next.text || old.name !== gateway || next.name !== gateway) throw new Fault("its keys are not two keys of this gateway");
    const [first, second] = note.signatures;
    if (note.signatures.length !== 2 || first === undefined || second === undefined || !(await signedBy(note, first, old)) || !(await signedBy(note, second, next)))
      throw new Fault("it is not signed by the old key and by the new one");
    if (last >= e.seq) throw new Fault(`it lets the old key sign for ${last} events, itself included`);
    return { old: old.text, next: next.text, last, at, certificate };
  } catch (thrown) {
    throw new Fault(`the rotation of the checkpoint key does not verify: ${messageOf(thrown)}`, { seq: e.seq });
  }
}
