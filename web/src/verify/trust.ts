// Which keys may have signed an export, by what the person who verifies it knows.
import { Fault } from "./fault";
import type { Header, Trust } from "./export";
import type { KeySet } from "./keyset";
import { proveKeySet } from "./keyset";

export interface Pins {
  /** The fingerprint of the gateway's CA: sha256 and 64 hex digits. */
  root?: string | undefined;
  /** The verifier key that seals exports: name+hash+base64. */
  key?: string | undefined;
  /** The CA that an earlier check saw. It pins nothing; another one is told. */
  seenRoot?: string | undefined;
}

export interface Judged {
  trust: Trust;
  /** The CA that the export names; undefined when it names none. */
  root: string | undefined;
}

/** Judges the keys in an export's header. What contradicts a pin is a Fault. */
export async function judge(header: Header, pins: Pins): Promise<Judged> {
  const own: KeySet | undefined = header.keys === null ? undefined : await proveKeySet(header.keys);
  if (pins.root !== undefined && own?.root !== pins.root) throw new Fault(`the export names ${own === undefined ? "no CA" : `the CA ${own.root}`}, and this browser pinned ${pins.root}`);
  if (pins.seenRoot !== undefined && own?.root !== pins.seenRoot) throw new Fault(`the export names ${own === undefined ? "no CA" : `the CA ${own.root}`}, and an earlier check of this gateway saw ${pins.seenRoot}`);
  const admit = own?.admit ?? (() => Promise.reject(new Fault("there is no CA that vouches for it")));
  const notaries = own === undefined ? {} : { notaries: { gateway: own.gateway, keys: own.notaries } };
  const named = own?.checkpointKeys ?? [];
  // A pinned key vouches for the other keys of the file that it sealed.
  if (pins.key !== undefined || named.length === 0) return { trust: { keys: [], pinned: false, admit, ...notaries }, root: own?.root };
  return { trust: { keys: named, pinned: pins.root !== undefined, admit, ...notaries }, root: own?.root };
}
