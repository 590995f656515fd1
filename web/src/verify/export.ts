// The verification of an export from its bytes and the trusted keys. The checks and their order
// are the same as in `palyra journal verify FILE`.
import type { Bytes } from "./bytes";
import { hash, hex, join, same, textOf, utf8 } from "./bytes";
import { count, list, object, readCanonical, string } from "./canonical";
import type { Head, JournalEvent } from "./event";
import { checkAfter, codes } from "./event";
import { messageOf, Fault } from "./fault";
import type { NotaryKey } from "./keyset";
import type { Checkpoint } from "./note";
import { noteKey, openNote } from "./note";
import { Sha256, sha256 } from "./sha256";
import type { Rotation, SigningKey } from "./signers";
import { Signers } from "./signers";
import type { Stretch, Work } from "./stretch";
import { Frontier, Roots } from "./tree";

/** The trusted keys of a gateway. */
export interface Trust {
  /** The keys that may have signed; if empty, the keys of the file are used. */
  keys: readonly SigningKey[];
  /** Whether the keys are from a source other than the file. */
  pinned: boolean;
  /** Throws if a new key of a rotation is not trusted. */
  admit?: (r: Rotation) => Promise<void>;
  /** The keys for attestations; absent without a key set. */
  notaries?: { gateway: string; keys: readonly NotaryKey[] };
}

export interface KnownRoot {
  size: number;
  /** The root of the tree of that size, in hex. */
  root: string;
}

export interface Options {
  /** The verifier key that must have sealed the export. */
  key?: string | undefined;
  trust?: ((header: Header) => Promise<Trust>) | undefined;
  /** The roots of earlier verifications, which the export must contain. */
  knownRoots?: readonly KnownRoot[] | undefined;
  /** Verifies a stretch of events; called concurrently. */
  verify: (work: Work) => Promise<Stretch>;
  parallel: number;
  /** Called with the number of verified events. */
  progress?: ((events: number) => void) | undefined;
}

export interface Header {
  after: number;
  gateway: string;
  keys: unknown;
  verifiers: string[];
}

export interface Summary {
  gateway: string;
  after: number;
  last: number;
  events: number;
  checkpoints: number;
  erased: number;
  rotations: number;
  attestations: number;
  erasedAttestations: number;
  signed: Checkpoint;
  /** The checkpoint keys with their sizes; empty if the sizes are unknown. */
  keys: SigningKey[];
  /** The key that sealed the export. */
  key: string;
  keyPinned: boolean;
}

/** Verifies an export. Throws a Fault with the line and the first invalid event. */
export async function verifyExport(source: AsyncIterable<Uint8Array>, options: Options): Promise<Summary> {
  const walk = new ExportVerifier(options);
  try {
    await walk.run(source);
  } catch (thrown) {
    const fault = thrown instanceof Fault ? thrown : new Fault(messageOf(thrown));
    fault.line ??= walk.line;
    throw fault;
  }
  return walk.summary();
}

const lineFeed = 10;
// The number of bytes in a stretch.
const stretchSize = 256 << 10;
const maxLine = 64 << 20;
const trailerStart = utf8('{"checkpoint":');
const trailerLetter = 2;

class ExportVerifier {
  /** The current line. */
  line = 0;
  readonly #options: Options;
  readonly #content = new Sha256();
  #header: Header = { after: 0, gateway: "", keys: null, verifiers: [] };
  #headerSum: Bytes = new Uint8Array();
  #trust: Trust = { keys: [], pinned: false };
  #signers = new Signers([], 0, false);
  #prev: Head = { seq: 0, hash: new Uint8Array(32), at: -Infinity };
  #roots = new Roots(new Frontier());
  #proven = 0; // the largest size with a verified signed root
  #signed: Checkpoint | undefined;
  #contradiction: Fault | undefined;
  readonly #counts = { events: 0, checkpoints: 0, erased: 0, rotations: 0, attestations: 0, erasedAttestations: 0 };
  #sent = 0; // lines sent to workers or read
  readonly #pending: { line: number; done: Promise<Stretch> }[] = [];

  constructor(options: Options) {
    this.#options = options;
  }

  async run(source: AsyncIterable<Uint8Array>): Promise<void> {
    const lines = new Lines(source);
    const first = await lines.line();
    this.line = this.#sent = 1;
    if (first === undefined) throw this.#cutOff(lines.remaining() > 0);
    await this.#begin(first);
    for (;;) {
      const { events, count, trailer } = await lines.stretch();
      if (events.length > 0) {
        this.#content.update(events);
        const line = this.#sent + 1;
        this.#sent += count;
        const notaries = this.#trust.notaries;
        const done = this.#options.verify({ lines: events, line, notaries: notaries?.keys ?? [], notaryOf: notaries?.gateway });
        done.catch(() => undefined); // awaited later, in order
        this.#pending.push({ line, done });
      }
      await this.#drain(trailer === undefined && !lines.ended ? this.#options.parallel : 0);
      if (trailer !== undefined) {
        this.line = ++this.#sent;
        await this.#end(trailer);
        if (!(await lines.atEnd())) throw new Fault("data follows the trailer", { line: this.line + 1 });
        break;
      }
      if (lines.ended) {
        this.line = this.#sent + 1;
        throw this.#cutOff(lines.remaining() > 0);
      }
    }
    if (this.#contradiction !== undefined) throw this.#contradiction;
  }

  summary(): Summary {
    if (this.#signed === undefined) throw new Fault("the export has no checkpoint");
    const { after, gateway, verifiers } = this.#header;
    return { gateway, after, last: this.#prev.seq, ...this.#counts, signed: this.#signed, keys: this.#signers.keys(), key: verifiers[0] ?? "", keyPinned: this.#options.key !== undefined || this.#trust.pinned };
  }

  #cutOff(inside: boolean): Fault {
    return new Fault(inside ? "the export ends inside a line: it was cut off" : "the export ends before its trailer: it was cut off", { seq: this.#prev.seq + 1 });
  }

  async #begin(line: Bytes): Promise<void> {
    try {
      const { header, frontier, prev } = readHeader(line);
      this.#header = header;
      this.#prev = prev;
      this.#proven = header.after;
      this.#roots = new Roots(frontier);
      await this.#startKeys();
    } catch (thrown) {
      throw new Fault(`header: ${messageOf(thrown)}`, { line: 1 });
    }
    this.#content.update(line).update(new Uint8Array([lineFeed]));
    this.#headerSum = this.#content.digest();
  }

  async #startKeys(): Promise<void> {
    const { gateway, verifiers, after } = this.#header;
    const [first] = verifiers;
    if (first === undefined) throw new Fault("the verifier key is missing");
    for (const text of verifiers) if (noteKey(text).name !== gateway) throw new Fault(`a verifier key of another gateway in an export of ${JSON.stringify(gateway)}`);
    const { key } = this.#options;
    if (key !== undefined && key !== first) throw new Fault(`the export is signed by the key ${first}, not by the expected ${key}`);
    if (this.#options.trust !== undefined) this.#trust = await this.#options.trust(this.#header);
    const loose = this.#trust.keys.length === 0;
    this.#signers = new Signers(loose ? verifiers.map((verifier) => ({ verifier, first: 0 })) : this.#trust.keys, after, loose);
    // A known key can introduce the other keys by rotations in the export.
    if (!verifiers.some((text) => this.#signers.has(text))) throw unknownKey(first);
  }

  /** Processes results in order until at most `most` are pending. */
  async #drain(maxPending: number): Promise<void> {
    while (this.#pending.length > maxPending) {
      const next = this.#pending.shift();
      if (next === undefined) return;
      this.line = next.line;
      await this.#join(await next.done, next.line);
      this.#options.progress?.(this.#counts.events);
    }
  }

  async #join(s: Stretch, line: number): Promise<void> {
    if (s.first !== undefined) checkAfter(s.first, this.#prev);
    const signed = new Map(s.signed.map(({ index, event }) => [index, event]));
    const start = this.#prev.seq;
    for (let i = 0; i < s.events; i++) {
      this.line = line + i;
      this.#roots.push(s.leaves.slice(32 * i, 32 * i + 32));
      for (const seen of this.#options.knownRoots ?? []) if (seen.size === start + i + 1) this.#checkRoot(seen.size, hash(seen.root) ?? new Uint8Array(), seen.size);
      const event = signed.get(i);
      if (event !== undefined) await this.#processSigned(event);
    }
    this.#counts.events += s.events;
    this.#counts.erased += s.erased;
    this.#counts.attestations += s.attestations;
    this.#counts.erasedAttestations += s.erasedAttestations;
    if (s.last !== undefined) this.#prev = s.last;
    if (s.contradiction !== undefined) this.#contradiction ??= new Fault(s.contradiction.what, s.contradiction);
    if (s.fault !== undefined) throw new Fault(s.fault.what, { line: s.fault.line, seq: s.fault.seq ?? this.#prev.seq + 1 });
  }

  async #processSigned(event: JournalEvent): Promise<void> {
    if (event.code === codes.rotation) {
      await this.#signers.rotate(event, this.#header.gateway, this.#signed?.size ?? 0, this.#trust.admit);
      this.#counts.rotations++;
      return;
    }
    let cp: Checkpoint;
    try {
      cp = await this.#signers.checkpoint(string(event.payload?.note, "note"), this.#header.gateway);
    } catch (thrown) {
      throw new Fault(messageOf(thrown), { seq: event.seq });
    }
    if (cp.size >= event.seq) throw new Fault(`the checkpoint covers ${cp.size} events, itself included`, { seq: event.seq });
    this.#counts.checkpoints++;
    const before = this.#signed?.size ?? 0;
    if (cp.size < before) throw new Fault(`the checkpoint covers ${cp.size} events, the one before it ${before}: it was rolled back`, { seq: event.seq });
    if (cp.size >= this.#roots.base.size) {
      this.#checkRoot(cp.size, cp.root, event.seq);
      this.#roots.settle(cp.size);
      this.#proven = cp.size;
    }
    this.#signed = cp;
  }

  /** Events up to the last valid checkpoint are verified, so the Fault has the event after it. */
  #checkRoot(size: number, root: Uint8Array, seq: number): void {
    const own = this.#roots.at(size);
    if (own === undefined) throw new Fault(`the checkpoint cannot be checked: it covers ${size} events, not between ${this.#roots.base.size} and ${this.#roots.size}`, { seq });
    if (!same(own, root)) throw new Fault(`the events ${this.#proven + 1} to ${size} differ from the events that a signed checkpoint covers`, { seq: this.#proven + 1 });
  }

  async #end(line: Bytes): Promise<void> {
    let trailer: Record<string, unknown>;
    let text: string;
    const { gateway, after, verifiers } = this.#header;
    const [first = ""] = verifiers;
    try {
      trailer = object(readCanonical(textOf(line)), ["checkpoint", "count", "kind", "seal", "sha256"]);
      if (trailer.kind !== "trailer") throw new Fault(`kind is ${JSON.stringify(trailer.kind)}`);
      count(trailer.count, "count");
      if (!this.#signers.has(first)) throw unknownKey(first);
      const key = noteKey(first);
      text = (await openNote(string(trailer.seal, "seal"), (name, id) => (name === key.name && id === key.id ? key : undefined))).note.text;
    } catch (thrown) {
      throw new Fault(`trailer: ${messageOf(thrown)}`);
    }
    const checkpoint = string(trailer.checkpoint, "checkpoint");
    const events = this.#prev.seq - after;
    const content = hex(this.#content.digest());
    const sealed = ["palyra.dev/journal/export/v1", gateway, String(after), String(events), hex(this.#headerSum), content, hex(sha256(utf8(checkpoint))), ""];
    if (trailer.sha256 !== content && text === sealed.join("\n")) throw new Fault("trailer: sha256 does not match the preceding bytes");
    if (trailer.count !== events) throw new Fault(`the trailer counts ${String(trailer.count)} events, there are ${events}`, { seq: this.#prev.seq + 1 });
    this.#compareSeal(sealed, text.split("\n"));
    await this.#checkLast(checkpoint);
  }

  /** Throws a Fault for the part of the export that differs from the seal. */
  #compareSeal(have: string[], want: string[]): void {
    if (have.join("\n") === want.join("\n")) return;
    if (have.length !== want.length) throw new Fault("trailer: the seal has another type");
    if (have[4] !== want[4]) throw new Fault("the seal covers another header", { line: 1 });
    if (have[6] !== want[6]) throw new Fault("trailer: the seal covers another checkpoint");
    if (have.slice(0, 4).join("\n") !== want.slice(0, 4).join("\n")) throw new Fault("the seal covers other events: some are missing or were added", { seq: this.#prev.seq + 1 });
    throw new Fault(`the events ${this.#proven + 1} to ${this.#prev.seq} differ from the events that the seal covers`, { seq: this.#proven + 1 });
  }

  /** Requires that the trailer's checkpoint covers the last event, so that an older one cannot hide a rollback. */
  async #checkLast(text: string): Promise<void> {
    const cp = await this.#signers.checkpoint(text, this.#header.gateway).catch((thrown: unknown) => {
      throw new Fault(`trailer: ${messageOf(thrown)}`);
    });
    const end = this.#prev.seq;
    if (cp.size !== end) throw new Fault(`the trailer's checkpoint covers ${cp.size} events, the export ends at ${end}`, { seq: Math.min(cp.size, end) + 1 });
    this.#checkRoot(cp.size, cp.root, cp.size);
    this.#signed = cp;
  }
}

function unknownKey(key: string): Fault {
  return new Fault(`it is signed by the key ${key}, which is not known as a key of this gateway`, { line: 1 });
}

function readHeader(line: Bytes): { header: Header; frontier: Frontier; prev: Head } {
  const h = object(readCanonical(textOf(line)), ["after", "format", "frontier", "gateway", "keys", "kind", "prev_hash", "verifiers"]);
  if (h.kind !== "header" || h.format !== "palyra-journal-export/1") throw new Fault(`want kind header and format palyra-journal-export/1, got ${JSON.stringify(h.kind)} and ${JSON.stringify(h.format)}`);
  const after = count(h.after, "after");
  const roots = list(h.frontier, "frontier").map((text) => {
    const root = hash(text);
    if (root === undefined) throw new Fault("frontier: want 64 hex digits");
    return root;
  });
  const prev = hash(h.prev_hash);
  const frontier = new Frontier(after, roots);
  if (prev === undefined) throw new Fault("prev_hash: want 64 hex digits");
  if (!frontier.valid() || (after === 0) !== prev.every((byte) => byte === 0)) throw new Fault(`frontier and prev_hash are not those of an export after ${after}`);
  const verifiers = list(h.verifiers, "verifiers").map((text) => string(text, "verifiers"));
  return { header: { after, gateway: string(h.gateway, "gateway"), keys: h.keys, verifiers }, frontier, prev: { seq: after, hash: prev, at: -Infinity } };
}

/** Splits the bytes of the source into complete lines. */
class Lines {
  readonly #source: AsyncIterator<Uint8Array>;
  #chunks: Bytes[] = []; // chunks; only the last one can contain a line feed
  #bufferedSize = 0;
  ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async #read(): Promise<void> {
    const next = await this.#source.next();
    if (next.done === true) this.ended = true;
    else if (next.value.length > 0) this.#buffer(new Uint8Array(next.value));
  }

  #buffer(bytes: Bytes): void {
    this.#chunks.push(bytes);
    this.#bufferedSize += bytes.length;
  }

  #take(): Bytes {
    const all = this.#chunks.length === 1 && this.#chunks[0] !== undefined ? this.#chunks[0] : join(...this.#chunks);
    this.#chunks = [];
    this.#bufferedSize = 0;
    return all;
  }

  remaining(): number {
    return this.#bufferedSize;
  }

  /** Returns the next line without its line feed; undefined if the source ends before a line feed. */
  async line(): Promise<Bytes | undefined> {
    while (!this.#chunks.some((chunk) => chunk.includes(lineFeed)) && !this.ended) {
      await this.#read();
      if (this.#bufferedSize > maxLine && !this.#chunks.some((chunk) => chunk.includes(lineFeed))) throw tooLong();
    }
    const all = this.#take();
    const end = all.indexOf(lineFeed);
    if (end < 0) {
      if (all.length > 0) this.#buffer(all);
      return undefined;
    }
    if (end + 1 < all.length) this.#buffer(all.slice(end + 1));
    return all.slice(0, end);
  }

  /** Returns complete lines of events, their number, and the trailer if it follows them. */
  async stretch(): Promise<{ events: Bytes; count: number; trailer: Bytes | undefined }> {
    let all: Bytes;
    let end: number;
    for (;;) {
      while (this.#bufferedSize < stretchSize && !this.ended) await this.#read();
      all = this.#take();
      end = all.lastIndexOf(lineFeed) + 1;
      if (end > 0 || this.ended) break;
      if (all.length > maxLine) throw tooLong();
      this.#buffer(all);
      await this.#read();
    }
    let count = 0;
    for (let from = 0; from < end; from = all.indexOf(lineFeed, from) + 1) {
      // Compare one letter first, because few lines share it.
      if (all[from + trailerLetter] !== trailerStart[trailerLetter] || !same(all.subarray(from, from + trailerStart.length), trailerStart)) {
        count++;
        continue;
      }
      const trailerEnd = all.indexOf(lineFeed, from);
      if (trailerEnd + 1 < all.length) this.#buffer(all.slice(trailerEnd + 1));
      return { events: all.slice(0, from), count, trailer: all.slice(from, trailerEnd) };
    }
    if (end < all.length) this.#buffer(all.slice(end));
    return { events: all.slice(0, end), count, trailer: undefined };
  }

  /** Whether the source has ended. */
  async atEnd(): Promise<boolean> {
    while (this.#bufferedSize === 0 && !this.ended) await this.#read();
    return this.#bufferedSize === 0;
  }
}

function tooLong(): Fault {
  return new Fault(`the line is longer than ${maxLine} bytes`);
}
