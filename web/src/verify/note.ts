// C2SP signed notes, verifier keys and checkpoints.
import type { Bytes } from "./bytes";
import { base64, hex, join, toBase64, utf8 } from "./bytes";
import { Fault } from "./fault";
import { sha256 } from "./sha256";

/** A key that verifies notes. */
export interface NoteKey {
  text: string;
  name: string;
  /** The key hash: the first four bytes of a signature, in hex. */
  id: string;
  public: Bytes;
}

const algorithm = 1; // Ed25519

/** Parses name+hash+base64. The name can contain any characters except spaces and plus signs. */
export function noteKey(text: string): NoteKey {
  const parts = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text);
  const key = base64(parts?.[3] ?? "-");
  const name = parts?.[1] ?? "";
  const id = parts?.[2] ?? "";
  if (key?.length !== 33 || key[0] !== algorithm || hex(keyHash(name, key)) !== id) throw new Fault(`the verifier key ${JSON.stringify(text)} is malformed: want name+hash+base64 of an Ed25519 key`);
  return { text, name, id, public: key.slice(1) };
}

function keyHash(name: string, key: Uint8Array): Bytes {
  return sha256(utf8(`${name}\n`), key).slice(0, 4);
}

/** Formats a public key with a name. */
export function noteKeyText(name: string, publicKey: Uint8Array): string {
  const key = join(new Uint8Array([algorithm]), publicKey);
  return `${name}+${hex(keyHash(name, key))}+${toBase64(key)}`;
}

const importedKeys = new Map<string, Promise<CryptoKey>>();

/** Whether an Ed25519 signature is valid. Throws if this browser does not support Ed25519. */
export async function verifyEd25519(publicKey: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  const id = hex(publicKey);
  let key = importedKeys.get(id);
  if (key === undefined) {
    key = crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
    importedKeys.set(id, key);
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
  /** The signed text with its line feed. */
  text: string;
  signatures: Signature[];
}

/** Parses a note in canonical form, without verifying its signatures. */
export function readNote(text: string): Note {
  const cut = text.lastIndexOf("\n\n");
  // Control characters would allow different notes that look the same.
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

/** Whether a signature of a note is valid for a key. */
export function signedBy(note: Note, signature: Signature, key: NoteKey): Promise<boolean> {
  if (signature.name !== key.name || signature.id !== key.id) return Promise.resolve(false);
  return verifyEd25519(key.public, signature.raw, utf8(note.text));
}

/** Parses a note with exactly one signature and verifies it with the key that find returns. */
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

/** Parses the three lines of a checkpoint. */
export function checkpointText(text: string, note: string): Checkpoint {
  const lines = text.split("\n");
  const root = base64(lines[2] ?? "-");
  const size = Number(lines[1]);
  if (lines.length !== 4 || lines[3] !== "" || lines[0] === "") throw new Fault("checkpoint: want three lines, origin, size and root hash");
  if (!/^(0|[1-9]\d*)$/.test(lines[1] ?? "") || !Number.isSafeInteger(size)) throw new Fault(`checkpoint: size ${JSON.stringify(lines[1])} is not a number`);
  if (root?.length !== 32) throw new Fault("checkpoint: the root hash is not base64 of 32 bytes");
  return { origin: lines[0] ?? "", size, root, note };
}
