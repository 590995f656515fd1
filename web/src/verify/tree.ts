// The Merkle tree of RFC 6962 over a chain of events.
import type { Bytes } from "./bytes";
import { sha256 } from "./sha256";

const leafTag = new Uint8Array([0]);
const nodeTag = new Uint8Array([1]);

export function leaf(eventHash: Uint8Array): Bytes {
  return sha256(leafTag, eventHash);
}

export function node(left: Uint8Array, right: Uint8Array): Bytes {
  return sha256(nodeTag, left, right);
}

/** The roots of the complete subtrees over the first `size` events, largest first. */
export class Frontier {
  size: number;
  roots: Bytes[];

  constructor(size = 0, roots: readonly Bytes[] = []) {
    this.size = size;
    this.roots = [...roots];
  }

  valid(): boolean {
    let ones = 0;
    for (let n = this.size; n > 0; n = Math.floor(n / 2)) ones += n % 2;
    return ones === this.roots.length;
  }

  append(leafHash: Bytes): void {
    let grown = leafHash;
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) {
      const left = this.roots.pop();
      if (left === undefined) break;
      grown = node(left, grown);
    }
    this.roots.push(grown);
    this.size++;
  }

  root(): Bytes {
    if (this.roots.length === 0) return sha256();
    return this.roots.reduceRight((right, left) => node(left, right));
  }

  copy(): Frontier {
    return new Frontier(this.size, this.roots);
  }
}

// The maximum number of events between the size of a checkpoint and its event.
const maxLag = 1 << 20;

/** Follows a chain and computes the roots at the sizes of checkpoints. */
export class Roots {
  base: Frontier;
  #queue: Bytes[] = [];
  // The last result of at, reused by settle.
  #found: Frontier | undefined;

  constructor(base: Frontier) {
    this.base = base;
  }

  get size(): number {
    return this.base.size + this.#queue.length;
  }

  push(leafHash: Bytes): void {
    this.#queue.push(leafHash);
    if (this.#queue.length > 2 * maxLag) this.settle(this.base.size + maxLag);
  }

  /** Discards the data for sizes below size. */
  settle(size: number): void {
    const n = size - this.base.size;
    if (this.#found?.size === size) this.base = this.#found;
    else for (const hash of this.#queue.slice(0, n)) this.base.append(hash);
    this.#found = undefined;
    this.#queue = this.#queue.slice(n);
  }

  /** Returns the root at a size, or undefined if the size is not available. */
  at(size: number): Bytes | undefined {
    const n = size - this.base.size;
    if (n < 0 || n > this.#queue.length) return undefined;
    const f = this.base.copy();
    for (const hash of this.#queue.slice(0, n)) f.append(hash);
    this.#found = f;
    return f.root();
  }
}
