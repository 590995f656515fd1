// Conversions between bytes and text. Decoding accepts only the canonical form.

export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Decodes UTF-8; throws if the bytes are not valid UTF-8. */
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

/** Decodes 64 lower-case hex digits to 32 bytes; returns undefined for other values. */
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

/** Decodes standard, padded base64; returns undefined if the text is not in canonical form. */
export function base64(text: string): Bytes | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  let bits = 0;
  let bitCount = 0;
  let at = 0;
  for (let i = 0; i < text.length - padding; i++) {
    const value = sextets[text.charCodeAt(i)] ?? 255;
    if (value === 255) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    bitCount += 6;
    if (bitCount < 8) continue;
    bitCount -= 8;
    out[at++] = bits >>> bitCount;
  }
  // Unused bits must be zero: otherwise several texts would decode to the same bytes.
  return (bits & ((1 << bitCount) - 1)) === 0 ? out : undefined;
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
