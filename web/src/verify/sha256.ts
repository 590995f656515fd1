// A synchronous SHA-256 (FIPS 180-4). A call of WebCrypto takes longer than the hash of an event,
// and WebCrypto does not support streams.
import type { Bytes } from "./bytes";

const K = new Int32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]);
const start = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

const W = new Int32Array(64);

// All indexes are within the fixed lengths of the typed arrays.
/* eslint-disable @typescript-eslint/no-non-null-assertion */

function compress(H: Int32Array, b: Uint8Array, at: number): void {
  for (let i = 0; i < 16; i++, at += 4) W[i] = (b[at]! << 24) | (b[at + 1]! << 16) | (b[at + 2]! << 8) | b[at + 3]!;
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15]!;
    const y = W[i - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    W[i] = (W[i - 16]! + s0 + W[i - 7]! + s1) | 0;
  }
  let a = H[0]!;
  let c1 = H[1]!;
  let c2 = H[2]!;
  let d = H[3]!;
  let e = H[4]!;
  let f = H[5]!;
  let g = H[6]!;
  let h = H[7]!;
  let t: number;
  // Eight unrolled rounds, after which each variable is back in its place.
  for (let i = 0; i < 64; i += 8) {
    t = (h + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))) + (g ^ (e & (f ^ g))) + K[i]! + W[i]!) | 0;
    d = (d + t) | 0;
    h = (t + (((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & c1) | (c2 & (a | c1)))) | 0;
    t = (g + (((d >>> 6) | (d << 26)) ^ ((d >>> 11) | (d << 21)) ^ ((d >>> 25) | (d << 7))) + (f ^ (d & (e ^ f))) + K[i + 1]! + W[i + 1]!) | 0;
    c2 = (c2 + t) | 0;
    g = (t + (((h >>> 2) | (h << 30)) ^ ((h >>> 13) | (h << 19)) ^ ((h >>> 22) | (h << 10))) + ((h & a) | (c1 & (h | a)))) | 0;
    t = (f + (((c2 >>> 6) | (c2 << 26)) ^ ((c2 >>> 11) | (c2 << 21)) ^ ((c2 >>> 25) | (c2 << 7))) + (e ^ (c2 & (d ^ e))) + K[i + 2]! + W[i + 2]!) | 0;
    c1 = (c1 + t) | 0;
    f = (t + (((g >>> 2) | (g << 30)) ^ ((g >>> 13) | (g << 19)) ^ ((g >>> 22) | (g << 10))) + ((g & h) | (a & (g | h)))) | 0;
    t = (e + (((c1 >>> 6) | (c1 << 26)) ^ ((c1 >>> 11) | (c1 << 21)) ^ ((c1 >>> 25) | (c1 << 7))) + (d ^ (c1 & (c2 ^ d))) + K[i + 3]! + W[i + 3]!) | 0;
    a = (a + t) | 0;
    e = (t + (((f >>> 2) | (f << 30)) ^ ((f >>> 13) | (f << 19)) ^ ((f >>> 22) | (f << 10))) + ((f & g) | (h & (f | g)))) | 0;
    t = (d + (((a >>> 6) | (a << 26)) ^ ((a >>> 11) | (a << 21)) ^ ((a >>> 25) | (a << 7))) + (c2 ^ (a & (c1 ^ c2))) + K[i + 4]! + W[i + 4]!) | 0;
    h = (h + t) | 0;
    d = (t + (((e >>> 2) | (e << 30)) ^ ((e >>> 13) | (e << 19)) ^ ((e >>> 22) | (e << 10))) + ((e & f) | (g & (e | f)))) | 0;
    t = (c2 + (((h >>> 6) | (h << 26)) ^ ((h >>> 11) | (h << 21)) ^ ((h >>> 25) | (h << 7))) + (c1 ^ (h & (a ^ c1))) + K[i + 5]! + W[i + 5]!) | 0;
    g = (g + t) | 0;
    c2 = (t + (((d >>> 2) | (d << 30)) ^ ((d >>> 13) | (d << 19)) ^ ((d >>> 22) | (d << 10))) + ((d & e) | (f & (d | e)))) | 0;
    t = (c1 + (((g >>> 6) | (g << 26)) ^ ((g >>> 11) | (g << 21)) ^ ((g >>> 25) | (g << 7))) + (a ^ (g & (h ^ a))) + K[i + 6]! + W[i + 6]!) | 0;
    f = (f + t) | 0;
    c1 = (t + (((c2 >>> 2) | (c2 << 30)) ^ ((c2 >>> 13) | (c2 << 19)) ^ ((c2 >>> 22) | (c2 << 10))) + ((c2 & d) | (e & (c2 | d)))) | 0;
    t = (a + (((f >>> 6) | (f << 26)) ^ ((f >>> 11) | (f << 21)) ^ ((f >>> 25) | (f << 7))) + (h ^ (f & (g ^ h))) + K[i + 7]! + W[i + 7]!) | 0;
    e = (e + t) | 0;
    a = (t + (((c1 >>> 2) | (c1 << 30)) ^ ((c1 >>> 13) | (c1 << 19)) ^ ((c1 >>> 22) | (c1 << 10))) + ((c1 & c2) | (d & (c1 | c2)))) | 0;
  }
  H[0] = H[0]! + a;
  H[1] = H[1]! + c1;
  H[2] = H[2]! + c2;
  H[3] = H[3]! + d;
  H[4] = H[4]! + e;
  H[5] = H[5]! + f;
  H[6] = H[6]! + g;
  H[7] = H[7]! + h;
}

// A buffer for the incomplete block and the padding at the end of a message.
const ending = new Uint8Array(128);
const endingWords = new DataView(ending.buffer);

/** Digests the rest of a message with this total length and returns the hash. It modifies H. */
function finish(H: Int32Array, rest: Uint8Array, filled: number, length: number): Bytes {
  const end = filled < 56 ? 64 : 128;
  if (rest !== ending) ending.set(rest.subarray(0, filled));
  ending[filled] = 0x80;
  ending.fill(0, filled + 1, end);
  endingWords.setUint32(end - 8, Math.floor(length / 0x20000000));
  endingWords.setUint32(end - 4, (length << 3) >>> 0);
  for (let at = 0; at < end; at += 64) compress(H, ending, at);
  const out = new Uint8Array(32);
  for (let i = 0; i < 8; i++) {
    const word = H[i]!;
    out[4 * i] = word >>> 24;
    out[4 * i + 1] = word >>> 16;
    out[4 * i + 2] = word >>> 8;
    out[4 * i + 3] = word;
  }
  return out;
}

/** Digests complete blocks, stores the remaining bytes in block and returns their number. */
function absorb(H: Int32Array, block: Uint8Array, filled: number, bytes: Uint8Array): number {
  let at = 0;
  if (filled > 0) {
    at = Math.min(64 - filled, bytes.length);
    for (let i = 0; i < at; i++) block[filled + i] = bytes[i]!;
    filled += at;
    if (filled < 64) return filled;
    compress(H, block, 0);
  }
  for (; at + 64 <= bytes.length; at += 64) compress(H, bytes, at);
  filled = 0;
  while (at < bytes.length) block[filled++] = bytes[at++]!;
  return filled;
}

/** An incremental digest. digest() can be called at any time and does not change the state. */
export class Sha256 {
  readonly #H = new Int32Array(start);
  readonly #block = new Uint8Array(64);
  #filled = 0;
  #length = 0;

  update(bytes: Uint8Array): this {
    this.#length += bytes.length;
    this.#filled = absorb(this.#H, this.#block, this.#filled, bytes);
    return this;
  }

  digest(): Bytes {
    return finish(this.#H.slice(), this.#block, this.#filled, this.#length);
  }
}

const once = new Int32Array(8);

export function sha256(...parts: readonly Uint8Array[]): Bytes {
  once.set(start);
  let filled = 0;
  let length = 0;
  for (const part of parts) {
    length += part.length;
    filled = absorb(once, ending, filled, part);
  }
  return finish(once, ending, filled, length);
}
