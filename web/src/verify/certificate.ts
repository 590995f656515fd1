// A minimal X.509 implementation for the certificates of a gateway. Unsupported features are
// refused: unknown critical extensions, other algorithms and other kinds of names.
import type { Bytes } from "./bytes";
import { base64, hex, same, textOf } from "./bytes";
import { messageOf, Fault } from "./fault";
import { sha256 } from "./sha256";

interface Der {
  tag: number;
  /** The encoding with tag and length. */
  whole: Bytes;
  body: Bytes;
}

/** Parses a sequence of DER values. */
function children(bytes: Bytes): Der[] {
  const out: Der[] = [];
  let at = 0;
  while (at < bytes.length) {
    const tag = bytes[at];
    let length = bytes[at + 1];
    let from = at + 2;
    if (tag === undefined || length === undefined || (tag & 0x1f) === 0x1f || length === 0x80) throw new Fault("malformed DER");
    if (length > 0x80) {
      const octets = length - 0x80;
      if (octets > 3 || from + octets > bytes.length) throw new Fault("malformed DER");
      length = 0;
      for (const octet of bytes.subarray(from, from + octets)) length = length * 256 + octet;
      from += octets;
      if (length < 0x80 || (octets > 1 && length < 2 ** (8 * (octets - 1)))) throw new Fault("malformed DER");
    }
    if (from + length > bytes.length) throw new Fault("malformed DER");
    out.push({ tag, whole: bytes.slice(at, from + length), body: bytes.slice(from, from + length) });
    at = from + length;
  }
  return out;
}

function onlyChild(bytes: Bytes, tag: number): Der {
  const [value, ...more] = children(bytes);
  if (value === undefined || more.length > 0 || value.tag !== tag) throw new Fault("malformed DER");
  return value;
}

export interface Certificate {
  raw: Bytes;
  signed: Bytes;
  signature: Bytes;
  signatureAlgorithm: string;
  issuer: Bytes;
  subject: Bytes;
  /** Milliseconds since 1970. */
  notBefore: number;
  notAfter: number;
  /** The SubjectPublicKeyInfo. */
  key: Bytes;
  keyAlgorithm: string;
  isCA: boolean;
  pathLength: number | undefined;
  keyUsage: number;
  purposes: string[];
  uris: string[];
  /** The number of names that are not URIs. */
  otherNames: number;
  /** The URI domains that the name constraints permit. */
  permitted: string[];
}

const oid = { ed25519: "2b6570", p256: "2a8648ce3d0201/2a8648ce3d030107", p384: "2a8648ce3d0201/2b81040022", sha256: "2a8648ce3d040302", sha384: "2a8648ce3d040303", codeSigning: "2b06010505070303" };

export function readCertificate(raw: Bytes): Certificate {
  const [tbs, algorithm, bits, ...more] = children(onlyChild(raw, 0x30).body);
  if (tbs?.tag !== 0x30 || algorithm === undefined || bits?.tag !== 0x03 || bits.body[0] !== 0 || more.length > 0) throw new Fault("malformed certificate");
  const parts = children(tbs.body);
  const [version, , inner, issuer, validity, subject, key] = parts;
  if (version?.tag !== 0xa0 || inner === undefined || issuer === undefined || validity === undefined || subject === undefined || key === undefined) throw new Fault("malformed certificate");
  if (!same(inner.whole, algorithm.whole)) throw new Fault("the certificate has two different signature algorithms");
  const [from, to] = children(validity.body);
  const c: Certificate = {
    raw, signed: tbs.whole, signature: bits.body.slice(1), signatureAlgorithm: algorithmOf(algorithm.body),
    issuer: issuer.whole, subject: subject.whole, notBefore: time(from), notAfter: time(to),
    key: key.whole, keyAlgorithm: algorithmOf(children(key.body)[0]?.body ?? new Uint8Array()),
    isCA: false, pathLength: undefined, keyUsage: 0, purposes: [], uris: [], otherNames: 0, permitted: [],
  };
  for (const part of parts.slice(7)) if (part.tag === 0xa3) readExtensions(c, onlyChild(part.body, 0x30).body);
  return c;
}

function algorithmOf(body: Bytes): string {
  return children(body)
    .filter((part) => part.tag === 0x06)
    .map((part) => hex(part.body))
    .join("/");
}

function time(value: Der | undefined): number {
  const text = value === undefined ? "" : textOf(value.body);
  const parts = /^(\d{2}|\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (parts === null || (value?.tag === 0x17) !== (text.length === 13)) throw new Fault("malformed time in a certificate");
  const [, year = "", month = "", day = "", hour = "", minute = "", second = ""] = parts;
  const full = year.length === 4 ? year : `${Number(year) < 50 ? "20" : "19"}${year}`;
  const ms = Date.parse(`${full}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(ms)) throw new Fault("malformed time in a certificate");
  return ms;
}

function readExtensions(c: Certificate, body: Bytes): void {
  const seen = new Set<string>();
  for (const extension of children(body)) {
    const [id, ...rest] = children(extension.body);
    const critical = rest.length === 2;
    const value = rest.at(-1);
    if (id === undefined || value?.tag !== 0x04) throw new Fault("malformed extension in a certificate");
    const name = hex(id.body);
    if (seen.has(name)) throw new Fault("a certificate has a duplicate extension");
    seen.add(name);
    const read = extensions[name];
    if (read !== undefined) read(c, value.body);
    else if (critical) throw new Fault(`a certificate has the critical extension ${name}, which is not supported`);
  }
}

const extensions: Readonly<Record<string, (c: Certificate, value: Bytes) => void>> = {
  // Key usage: the first bit is digitalSignature, the sixth is keyCertSign.
  "551d0f": (c, value) => {
    c.keyUsage = onlyChild(value, 0x03).body[1] ?? 0;
  },
  "551d13": (c, value) => {
    const [ca, length] = children(onlyChild(value, 0x30).body);
    c.isCA = ca?.tag === 0x01 && ca.body[0] === 0xff;
    if (length?.tag === 0x02) c.pathLength = length.body[0];
  },
  "551d25": (c, value) => {
    c.purposes = children(onlyChild(value, 0x30).body).map((purpose) => hex(purpose.body));
  },
  "551d11": (c, value) => {
    for (const name of children(onlyChild(value, 0x30).body)) {
      if (name.tag === 0x86) c.uris.push(textOf(name.body));
      else c.otherNames++;
    }
  },
  // Name constraints: only permitted subtrees; a gateway does not use excluded ones.
  "551d1e": (c, value) => {
    for (const part of children(onlyChild(value, 0x30).body)) {
      if (part.tag !== 0xa0) throw new Fault("a certificate has name constraints that are not supported");
      for (const subtree of children(part.body)) {
        const [base] = children(subtree.body);
        if (base?.tag === 0x86) c.permitted.push(textOf(base.body));
      }
    }
  },
};

/** Decodes PEM blocks of one type; refuses other content. */
export function readPem(text: string, what = "CERTIFICATE"): Bytes[] {
  const out: Bytes[] = [];
  const rest = text.replace(new RegExp(`-----BEGIN ${what}-----\\n([A-Za-z0-9+/=\\n]+)-----END ${what}-----\\n?`, "g"), (_, body: string) => {
    const der = base64(body.replaceAll("\n", ""));
    if (der === undefined) throw new Fault("malformed PEM");
    out.push(der);
    return "";
  });
  if (rest.trim() !== "") throw new Fault(`not PEM of the type ${what}`);
  return out;
}

export function fingerprint(certificate: Bytes): string {
  return `sha256:${hex(sha256(certificate))}`;
}

const curves: Readonly<Record<string, { curve: string; size: number }>> = { [oid.p256]: { curve: "P-256", size: 32 }, [oid.p384]: { curve: "P-384", size: 48 } };
const digests: Readonly<Record<string, string>> = { [oid.sha256]: "SHA-256", [oid.sha384]: "SHA-384" };

async function signedBy(c: Certificate, issuer: Certificate): Promise<boolean> {
  if (c.signatureAlgorithm === oid.ed25519 && issuer.keyAlgorithm === oid.ed25519) {
    const key = await crypto.subtle.importKey("spki", issuer.key, "Ed25519", false, ["verify"]);
    return crypto.subtle.verify("Ed25519", key, c.signature, c.signed);
  }
  const on = curves[issuer.keyAlgorithm];
  const digest = digests[c.signatureAlgorithm];
  if (on === undefined || digest === undefined) throw new Fault("a certificate is signed with an unsupported algorithm");
  const key = await crypto.subtle.importKey("spki", issuer.key, { name: "ECDSA", namedCurve: on.curve }, false, ["verify"]);
  return crypto.subtle.verify({ name: "ECDSA", hash: digest }, key, rawSignature(c.signature, on.size), c.signed);
}

/** Converts an ECDSA signature to the format of WebCrypto: both numbers at full length. */
function rawSignature(der: Bytes, size: number): Bytes {
  const out = new Uint8Array(2 * size);
  const numbers = children(onlyChild(der, 0x30).body);
  if (numbers.length !== 2) throw new Fault("malformed signature of a certificate");
  numbers.forEach((number, i) => {
    const digits = number.body[0] === 0 ? number.body.subarray(1) : number.body;
    if (number.tag !== 0x02 || digits.length > size) throw new Fault("malformed signature of a certificate");
    out.set(digits, (i + 1) * size - digits.length);
  });
  return out;
}

export interface VerifiedChain {
  leaf: Certificate;
  /** The leaf's Ed25519 key. */
  publicKey: Bytes;
  /** The host of the SPIFFE ID spiffe://host/role/name. */
  host: string;
  /** The period in which all certificates of the chain are valid, in milliseconds since 1970. */
  from: number;
  to: number;
}

/**
 * Verifies that the first certificate is for a role ("notary" or "journal") and that each is
 * signed by the next one, up to a self-signed root. The chain is verified at a time at which all
 * certificates were valid, not at the current time.
 */
export async function proveChain(chain: readonly Certificate[], role: string): Promise<VerifiedChain> {
  const leaf = chain[0];
  const root = chain.at(-1);
  if (leaf === undefined || root === undefined || chain.length < 2) throw new Fault("certificate_chain is empty");
  if (!same(root.issuer, root.subject) || !root.isCA || !(await signedBy(root, root))) throw new Fault("the last certificate is not a self-signed root");
  const from = Math.max(...chain.map((c) => c.notBefore));
  const to = Math.min(...chain.map((c) => c.notAfter));
  if (to < from) throw new Fault("the certificates of the chain are never valid together");
  const name = /^spiffe:\/\/([^/?#@:]+)\/([a-z]+)\/([^/?#]+)$/.exec(leaf.uris[0] ?? "");
  if (leaf.isCA || (leaf.keyUsage & 0x80) === 0) throw new Fault("the certificate is not for signatures");
  if (leaf.uris.length !== 1 || leaf.otherNames > 0 || name?.[2] !== role) throw new Fault(`the certificate does not name a ${role}`);
  const host = name[1] ?? "";
  try {
    for (const [i, issuer] of chain.slice(1).entries()) await proveLink(chain[i] ?? leaf, issuer, i, host);
  } catch (thrown) {
    throw new Fault(`the ${role}'s certificate does not lead to the root: ${messageOf(thrown)}`);
  }
  if (!leaf.purposes.includes(oid.codeSigning)) throw new Fault(`the ${role}'s certificate does not lead to the root: it is not for code signing`);
  if (leaf.keyAlgorithm !== oid.ed25519) throw new Fault("the certificate is not for an Ed25519 key");
  // The key follows the algorithm as a bit string without unused bits.
  const bits = children(onlyChild(leaf.key, 0x30).body)[1];
  if (bits?.tag !== 0x03 || bits.body.length !== 33 || bits.body[0] !== 0) throw new Fault("the certificate's key is malformed");
  return { leaf, publicKey: bits.body.slice(1), host, from, to };
}

async function proveLink(c: Certificate, issuer: Certificate, below: number, host: string): Promise<void> {
  if (!same(c.issuer, issuer.subject) || !issuer.isCA || (issuer.keyUsage & 0x04) === 0) throw new Fault("its issuer is not a CA");
  if (issuer.pathLength !== undefined && below > issuer.pathLength) throw new Fault("its chain exceeds the path length of its issuer");
  if (issuer.purposes.length > 0 && !issuer.purposes.includes(oid.codeSigning)) throw new Fault("its issuer is not for code signing");
  if (issuer.permitted.length > 0 && !issuer.permitted.some((domain) => isWithin(host, domain))) throw new Fault("its name is outside the name constraints of its issuer");
  if (!(await signedBy(c, issuer))) throw new Fault("a signature in its chain is not valid");
}

function isWithin(host: string, domain: string): boolean {
  return domain.startsWith(".") ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`);
}
