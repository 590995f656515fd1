// C2SP signed notes, verifier keys and checkpoints.
import type { Bytes } from "./bytes";
import { base64, hex, join, toBase64, utf8 } from "./bytes";
import { Fault } from "./fault";
import { sha256 } from "./sha256";

/** A key that verifies notes. */
export interface NoteKey {
  text: string;
  name: string;
  /** The four bytes that a signature begins with, in hex. */
  id: string;
  public: Bytes;
}

const algorithm = 1; // Ed25519

/** Reads name+hash+base64. The name may hold anything but spaces and plus signs. */
export function noteKey(text: string): NoteKey {
  const parts = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text);
  const key = base64(parts?.[3] ?? "-");
  const name = parts?.[1] ?? "";
  const id = parts?.[2] ?? "";
  if (key?.length !== 33 || key[0] !== algorithm || hex(keyHash(name, key)) !== id) throw new Fault(`the verifier key ${JSON.stringify(text)} is malformed: it is name+hash+base64 of an Ed25519 key`);
  return { text, name, id, public: key.slice(1) };
}

function keyHash(name: string, key: Uint8Array): Bytes {
  return sha256(utf8(`${name}\n`), key).slice(0, 4);
}

/** The text form of a public key under a name. */
export function noteKeyText(name: string, publicKey: Uint8Array): string {
  const key = join(new Uint8Array([algorithm]), publicKey);
  return `${name}+${hex(keyHash(name, key))}+${toBase64(key)}`;
}

const imported = new Map<string, Promise<CryptoKey>>();

/** Whether an Ed25519 signature holds. Throws where this browser has no Ed25519. */
export async function verifyEd25519(publicKey: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  const id = hex(publicKey);
  let key = imported.get(id);
  if (key === undefined) {
    key = crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
    imported.set(id, key);
  }
  let ready: CryptoKey;
  try {
    ready = await key;
  } catch (thrown) {
    throw new Fault(`this browser cannot check Ed25519 signatures (${String(thrown)}); use Chromium 137, Firefox 129, Safari 17 or newer, or \`palyra journal verify\``);
  }
  return signature.length === 64 && crypto.subtle.verify("Ed25519", ready, signature, message);
}

export interface Signature {
  name: string;
  id: string;
  raw: Bytes;
}

export interface Note {
  /** What is signed, with its line feed. */
  text: string;
  signatures: Signature[];
}

/** Reads a note that is in its one form; proves no signature. */
export function readNote(text: string): Note {
  const cut = text.lastIndexOf("\n\n");
  // A control character would make two notes that look the same.
  if (cut < 0 || !text.endsWith("\n") || /[\u0000-\u0009\u000b-\u001f]/.test(text)) throw new Fault("malformed note");
  const signatures = text
    .slice(cut + 2, -1)
    .split("\n")
    .map((line): Signature => {
      const parts = /^— ([^\s+]+) ([A-Za-z0-9+/=]+)$/.exec(line);
      const raw = base64(parts?.[2] ?? "-");
      if (parts === null || raw === undefined || raw.length < 5) throw new Fault("malformed note");
      return { name: parts[1] ?? "", id: hex(raw.subarray(0, 4)), raw: raw.slice(4) };
    });
  return { text: text.slice(0, cut + 1), signatures };
}

/** Whether a signature of a note is that of a key. */
export function signedBy(note: Note, signature: Signature, key: NoteKey): Promise<boolean> {
  if (signature.name !== key.name || signature.id !== key.id) return Promise.resolve(false);
  return verifyEd25519(key.public, signature.raw, utf8(note.text));
}

/** Reads a note with exactly one signature, by one of the keys that find knows, and proves it. */
export async function openNote(text: string, find: (name: string, id: string) => NoteKey | undefined): Promise<{ note: Note; key: NoteKey }> {
  const note = readNote(text);
  const [signature] = note.signatures;
  if (signature === undefined || note.signatures.length !== 1) throw new Fault("want exactly one signature");
  const key = find(signature.name, signature.id);
  if (key === undefined) throw new Fault("the note has no verifiable signatures");
  if (!(await signedBy(note, signature, key))) throw new Fault(`invalid signature for key ${key.name}+${key.id}`);
  return { note, key };
}

export interface Checkpoint {
  origin: string;
  size: number;
  root: Bytes;
  note: string;
}

/** Reads the three lines of a checkpoint. */
export function checkpointText(text: string, note: string): Checkpoint {
  const lines = text.split("\n");
  const root = base64(lines[2] ?? "-");
  const size = Number(lines[1]);
  if (lines.length !== 4 || lines[3] !== "" || lines[0] === "") throw new Fault("checkpoint: want three lines, origin, size and root hash");
  if (!/^(0|[1-9]\d*)$/.test(lines[1] ?? "") || !Number.isSafeInteger(size)) throw new Fault("checkpoint: its size is not a number");
  if (root?.length !== 32) throw new Fault("checkpoint: the root hash is not base64 of 32 bytes");
  return { origin: lines[0] ?? "", size, root, note };
}
