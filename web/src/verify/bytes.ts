// Bytes and their texts. Everything that is decoded here has exactly one form.

export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Throws where the bytes are not UTF-8. */
export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

const digits = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, "0"));

export function hex(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) out += digits[byte] ?? "";
  return out;
}

const isHash = /^[0-9a-f]{64}$/;

/** The 32 bytes of 64 lower-case hex digits, undefined where it is not that. */
export function hash(text: unknown): Bytes | undefined {
  if (typeof text !== "string" || !isHash.test(text)) return undefined;
  const out = new Uint8Array(32);
  for (let i = 0; i < 32; i++) out[i] = nibble(text.charCodeAt(2 * i)) * 16 + nibble(text.charCodeAt(2 * i + 1));
  return out;
}

function nibble(code: number): number {
  return code < 58 ? code - 48 : code - 87;
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const sextets = new Uint8Array(128).fill(255);
for (let i = 0; i < 64; i++) sextets[alphabet.charCodeAt(i)] = i;

/** Standard, padded base64 without anything else in it; undefined where it is not in that one form. */
export function base64(text: string): Bytes | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  let bits = 0;
  let held = 0;
  let at = 0;
  for (let i = 0; i < text.length - padding; i++) {
    const value = sextets[text.charCodeAt(i)] ?? 255;
    if (value === 255) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out[at++] = bits >>> held;
  }
  // The bits that are left over are zero, or two texts would be the same bytes.
  return (bits & ((1 << held) - 1)) === 0 ? out : undefined;
}

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary);
}

export function join(...parts: readonly Uint8Array[]): Bytes {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
