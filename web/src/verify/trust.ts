// The trusted keys of an export, derived from its header and the pins of the user.
import { Fault } from "./fault";
import type { Header, Trust } from "./export";
import type { KeySet } from "./keyset";
import { proveKeySet } from "./keyset";

export interface Pins {
  /** The fingerprint of the gateway's CA: sha256 and 64 hex digits. */
  root?: string | undefined;
  /** The verifier key that seals exports: name+hash+base64. */
  key?: string | undefined;
  /** The CA of an earlier verification. It is not a pin, but a different CA is an error. */
  previousRoot?: string | undefined;
}

export interface EvaluatedTrust {
  trust: Trust;
  /** The CA in the export; undefined if it has none. */
  root: string | undefined;
}

/** Evaluates the keys in the header of an export. Throws a Fault if they contradict a pin. */
export async function evaluateTrust(header: Header, pins: Pins): Promise<EvaluatedTrust> {
  const keySet: KeySet | undefined = header.keys === null ? undefined : await proveKeySet(header.keys);
  if (pins.root !== undefined && keySet?.root !== pins.root) throw new Fault(`the export has ${keySet === undefined ? "no CA" : `the CA ${keySet.root}`}, the pinned CA is ${pins.root}`);
  if (pins.previousRoot !== undefined && keySet?.root !== pins.previousRoot) throw new Fault(`the export has ${keySet === undefined ? "no CA" : `the CA ${keySet.root}`}, an earlier verification of this gateway had ${pins.previousRoot}`);
  const admit = keySet?.admit ?? (() => Promise.reject(new Fault("the export has no CA that certifies it")));
  const notaries = keySet === undefined ? {} : { notaries: { gateway: keySet.gateway, keys: keySet.notaries } };
  const named = keySet?.checkpointKeys ?? [];
  // A pinned key seals the file, and with it the other keys in the file.
  if (pins.key !== undefined || named.length === 0) return { trust: { keys: [], pinned: false, admit, ...notaries }, root: keySet?.root };
  return { trust: { keys: named, pinned: pins.root !== undefined, admit, ...notaries }, root: keySet?.root };
}
