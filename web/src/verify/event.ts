// The events of an export and their hashes (docs/format/journal.md).
import type { Bytes } from "./bytes";
import { hash, same, textOf, utf8 } from "./bytes";
import { object, readCanonical, string } from "./canonical";
import { Fault } from "./fault";
import { sha256 } from "./sha256";

export const codes = { checkpoint: "PAL-J102", rotation: "PAL-J104", attested: "PAL-X100" } as const;

/** The end of a chain: the last event's number, hash and time in microseconds. */
export interface Head {
  seq: number;
  hash: Bytes;
  at: number;
}

export interface JournalEvent extends Head {
  code: string;
  subject: string;
  prevHash: Bytes;
  payload: Readonly<Record<string, unknown>> | null;
  erased: boolean;
}

const names = ["actor", "at", "code", "hash", "id", "kind", "payload", "payload_sha256", "prev_hash", "run", "salt", "seq", "session", "subject"];
const ulid = /^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$/;

/** Parses a line; check verifies the hashes of the event. Errors are Faults without a line. */
export function readEvent(line: Uint8Array): { event: JournalEvent; check: () => void } {
  let text: string;
  try {
    text = textOf(line);
  } catch {
    throw unreadable("it is not UTF-8");
  }
  let e: Record<string, unknown>;
  try {
    e = object(readCanonical(text), names);
  } catch (thrown) {
    throw unreadable(thrown instanceof Fault ? thrown.message : String(thrown));
  }
  const at = micros(e.at);
  const own = hash(e.hash);
  const prevHash = hash(e.prev_hash);
  const payloadSum = hash(e.payload_sha256);
  const salt = e.salt === null ? null : hash(e.salt);
  const seq = e.seq;
  if (e.kind !== "event") throw unreadable("kind is not event");
  if (typeof seq !== "number" || !Number.isSafeInteger(seq) || seq < 1) throw unreadable("seq is not a sequence number");
  if (at === undefined) throw unreadable("at is not a time in the form of the journal");
  if (own === undefined || prevHash === undefined || payloadSum === undefined || salt === undefined) throw unreadable("a hash is not 64 hex digits");
  if (typeof e.id !== "string" || !ulid.test(e.id)) throw unreadable("id is not a ULID");
  if (typeof e.payload !== "object" || Array.isArray(e.payload)) throw unreadable("the payload is not an object");
  if ((e.payload === null) !== (salt === null)) throw unreadable("payload and salt must both be present or both be erased");
  const texts = [string(e.id, "id"), string(e.code, "code"), string(e.session, "session"), string(e.run, "run"), string(e.actor, "actor"), string(e.subject, "subject")] as const;
  const event: JournalEvent = { seq, hash: own, at, prevHash, code: texts[1], subject: texts[5], payload: e.payload as JournalEvent["payload"], erased: salt === null };
  return {
    event,
    check: () => {
      if (salt !== null && !same(sha256(salt, payloadBytes(line, text)), payloadSum)) throw new Fault("the payload does not match its digest", { seq });
      if (!same(chainHash(seq, prevHash, header(at, texts), payloadSum), own)) throw new Fault("the event does not match its hash", { seq });
    },
  };
}

function unreadable(what: string): Fault {
  return new Fault(`the event cannot be read: ${what}`);
}

// The line is canonical, and quotes in strings are escaped. The text before the first match and
// after the last match therefore cannot be part of a string.
const payloadStart = ',"kind":"event","payload":';
const payloadEnd = ',"payload_sha256":"';

function payloadBytes(line: Uint8Array, text: string): Uint8Array {
  const from = text.indexOf(payloadStart) + payloadStart.length;
  const to = text.lastIndexOf(payloadEnd);
  return text.length === line.length ? line.subarray(from, to) : utf8(text.slice(from, to));
}

/** Parses a time with six decimals to microseconds since 1970; returns undefined for other values. */
export function micros(text: unknown): number | undefined {
  if (typeof text !== "string") return undefined;
  const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3})(\d{3})Z$/.exec(text);
  if (parts === null) return undefined;
  const ms = Date.parse(`${parts[1] ?? ""}.${parts[2] ?? ""}Z`);
  if (Number.isNaN(ms) || new Date(ms).toISOString() !== `${parts[1] ?? ""}.${parts[2] ?? ""}Z`) return undefined;
  return ms * 1000 + Number(parts[3]);
}

// A reused buffer for the input of hashes, which grows as required.
let scratch = new Uint8Array(1024);
const encoder = new TextEncoder();
let filled = 0;

function putText(text: string): void {
  if (filled + 4 + 3 * text.length > scratch.length) {
    const grown = new Uint8Array(2 * (filled + 4 + 3 * text.length));
    grown.set(scratch);
    scratch = grown;
  }
  const { written } = encoder.encodeInto(text, scratch.subarray(filled + 4));
  putU32(written);
  filled += written;
}

function putU32(n: number): void {
  scratch[filled++] = n >>> 24;
  scratch[filled++] = n >>> 16;
  scratch[filled++] = n >>> 8;
  scratch[filled++] = n;
}

function putU64(n: number): void {
  const high = Math.floor(n / 0x100000000);
  putU32(high >>> 0);
  putU32((n - high * 0x100000000) >>> 0);
}

function putBytes(bytes: Uint8Array): void {
  scratch.set(bytes, filled);
  filled += bytes.length;
}

function header(at: number, [id, code, session, run, actor, subject]: readonly [string, string, string, string, string, string]): Bytes {
  filled = 0;
  putText("palyra.dev/journal/header/v1");
  putText(id);
  putU64(at);
  for (const text of [code, session, run, actor, subject]) putText(text);
  return sha256(scratch.subarray(0, filled));
}

function chainHash(seq: number, prev: Uint8Array, head: Uint8Array, payload: Uint8Array): Bytes {
  filled = 0;
  putText("palyra.dev/journal/event/v1");
  putU64(seq);
  putBytes(prev);
  putBytes(head);
  putBytes(payload);
  return sha256(scratch.subarray(0, filled));
}

/** Checks that an event follows another one; the Fault has the first wrong sequence number. */
export function checkAfter(e: { seq: number; prevHash: Uint8Array; at: number }, prev: Head): void {
  const want = prev.seq + 1;
  if (e.seq > want) throw new Fault(`events are missing: ${e.seq} follows ${prev.seq}`, { seq: want });
  if (e.seq < want) throw new Fault(`events are out of order: ${e.seq} follows ${prev.seq}`, { seq: want });
  if (!same(e.prevHash, prev.hash)) throw new Fault("prev_hash is not the hash of the event before it", { seq: want });
  if (e.at < prev.at) throw new Fault("the time lies before that of the event before it", { seq: want });
}
