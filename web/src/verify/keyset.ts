// Verification of a gateway's key set (docs/format/attestation.md): the certificates of the keys
// that sign attestations and checkpoints, up to the CA.
import type { Bytes } from "./bytes";
import { same, toBase64 } from "./bytes";
import { count, list, object, string } from "./canonical";
import type { Certificate } from "./certificate";
import { fingerprint, proveChain, readCertificate, readPem } from "./certificate";
import { messageOf, Fault } from "./fault";
import { noteKeyText } from "./note";
import { sha256 } from "./sha256";
import type { Rotation, SigningKey } from "./signers";
import { utf8 } from "./bytes";

/** A notary key with a verified certificate, for the verification of attestations. */
export interface NotaryKey {
  id: string;
  publicKey: Bytes;
  /** The validity, in milliseconds since 1970. */
  from: number;
  to: number;
  retiredAt?: number;
}

interface CheckpointKeyEntry {
  verifier: string;
  chain: string;
  certifiedAt: number;
  first: number;
  last?: number;
}

export interface KeySet {
  gateway: string;
  /** The fingerprint of the CA: "sha256:" and hex digits. */
  root: string;
  notaries: NotaryKey[];
  /** The checkpoint keys, verified by their certificates; empty in a set of version 1. */
  checkpointKeys: SigningKey[];
  /** Throws if the CA has not certified the new key of a rotation. */
  admit: (r: Rotation) => Promise<void>;
}

/** Parses a key set and verifies all its certificates. */
export async function proveKeySet(value: unknown): Promise<KeySet> {
  try {
    return await prove(value);
  } catch (thrown) {
    throw new Fault(`key set: ${messageOf(thrown)}`);
  }
}

async function prove(value: unknown): Promise<KeySet> {
  const set = object(value, ["format", "gateway", "ca_root", "keys"], ["checkpoint_keys"]);
  const entries = set.checkpoint_keys === undefined ? [] : list(set.checkpoint_keys, "checkpoint_keys").map(readCheckpointKey);
  if (set.format !== (entries.length > 0 ? "palyra-key-set/v2" : "palyra-key-set/v1")) throw new Fault(`it is of format ${JSON.stringify(set.format)} and has ${entries.length} checkpoint keys`);
  const gateway = string(set.gateway, "gateway");
  const [root, ...more] = certificates(string(set.ca_root, "ca_root"));
  if (root === undefined || more.length > 0) throw new Fault("ca_root is not one certificate in PEM");
  const notaries: NotaryKey[] = [];
  for (const key of list(set.keys, "keys")) notaries.push(await proveNotary(key, root, gateway));
  if (notaries.length === 0) throw new Fault("it contains no keys");
  for (const [i, key] of entries.entries()) {
    await proveCheckpointKey(key, root, gateway);
    const next = entries[i - 1];
    if (next !== undefined && (key.last === undefined || next.first !== key.last + 1)) throw new Fault(`checkpoint key ${key.verifier}: its sizes are not adjacent to those of the next key`);
  }
  return {
    gateway,
    root: fingerprint(root.raw),
    notaries,
    checkpointKeys: entries.map(({ verifier, first, last }) => ({ verifier, first, ...(last === undefined ? {} : { last }) })),
    admit: (r) => proveCheckpointKey({ verifier: r.next, chain: r.certificate, certifiedAt: r.at / 1000, first: 0 }, root, gateway),
  };
}

function certificates(pem: string): Certificate[] {
  return readPem(pem).map(readCertificate);
}

/** Parses an RFC 3339 time in UTC to milliseconds since 1970. */
export function parseTime(value: unknown, name: string): number {
  const text = string(value, name);
  const ms = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(ms)) throw new Fault(`${name} is not a valid time`);
  return ms;
}

async function proveNotary(value: unknown, root: Certificate, gateway: string): Promise<NotaryKey> {
  const key = object(value, ["key_id", "algorithm", "public_key", "certificate_chain", "not_before", "not_after", "retired"], ["retired_at"]);
  const id = string(key.key_id, "key_id");
  try {
    const proven = await proveChain([...certificates(string(key.certificate_chain, "certificate_chain")), root], "notary");
    const [spki] = readPem(string(key.public_key, "public_key"), "PUBLIC KEY");
    if (proven.host !== gateway) throw new Fault(`it is certified for gateway ${JSON.stringify(proven.host)}, the set is of ${JSON.stringify(gateway)}`);
    if (key.algorithm !== "ed25519") throw new Fault("algorithm is not ed25519");
    if (spki === undefined || !same(spki, proven.leaf.key)) throw new Fault("public_key differs from the key of the certificate");
    if (id !== sshFingerprint(proven.publicKey)) throw new Fault("key_id is not the fingerprint of the public key");
    if (parseTime(key.not_before, "not_before") !== proven.leaf.notBefore || parseTime(key.not_after, "not_after") !== proven.leaf.notAfter) throw new Fault("not_before or not_after differs from the certificate");
    if ((key.retired === true) !== (key.retired_at !== undefined)) throw new Fault("retired and retired_at do not agree");
    const retired = key.retired_at === undefined ? {} : { retiredAt: parseTime(key.retired_at, "retired_at") };
    return { id, publicKey: proven.publicKey, from: proven.from, to: proven.to, ...retired };
  } catch (thrown) {
    throw new Fault(`key ${id}: ${messageOf(thrown)}`);
  }
}

/** Returns the OpenSSH fingerprint of an Ed25519 key. */
function sshFingerprint(publicKey: Bytes): string {
  const name = utf8("ssh-ed25519");
  const sum = sha256(new Uint8Array([0, 0, 0, name.length]), name, new Uint8Array([0, 0, 0, publicKey.length]), publicKey);
  return `SHA256:${toBase64(sum).replace(/=+$/, "")}`;
}

function readCheckpointKey(value: unknown): CheckpointKeyEntry {
  const key = object(value, ["verifier", "certificate_chain", "certified_at", "first_size"], ["last_size"]);
  const last = key.last_size === undefined ? {} : { last: count(key.last_size, "last_size") };
  return {
    verifier: string(key.verifier, "verifier"),
    chain: string(key.certificate_chain, "certificate_chain"),
    certifiedAt: parseTime(key.certified_at, "certified_at"),
    first: count(key.first_size, "first_size"),
    ...last,
  };
}

async function proveCheckpointKey(key: CheckpointKeyEntry, root: Certificate, gateway: string): Promise<void> {
  const fail = (what: string) => new Fault(`checkpoint key ${key.verifier}: ${what}`);
  const proven = await proveChain([...certificates(key.chain), root], "journal").catch((thrown: unknown) => {
    throw fail(messageOf(thrown));
  });
  if (proven.host !== gateway) throw fail(`it is certified for gateway ${JSON.stringify(proven.host)}, the set is of ${JSON.stringify(gateway)}`);
  if (key.certifiedAt < proven.from || key.certifiedAt > proven.to) throw fail("its certificate was not valid when it was certified");
  if (noteKeyText(key.verifier.split("+")[0] ?? "", proven.publicKey) !== key.verifier) throw fail("verifier differs from the key of the certificate");
  if (key.last !== undefined && key.last < key.first) throw fail(`it cannot have signed for the sizes ${key.first} to ${key.last}`);
}
