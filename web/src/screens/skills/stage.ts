// How a package gets to the gateway: by its digest, part after part.
import { hex } from "../../verify/bytes";
import { Sha256 } from "../../verify/sha256";

/** What one request has room for, and what a package has at most, in bytes. */
export const partSize = 1 << 20;
export const mostBytes = 64 << 20;

export interface Part {
  digest: string;
  size: bigint;
  offset: bigint;
  data: Uint8Array;
}

/**
 * Brings a package to the gateway and returns its digest. send brings one part and
 * answers how much is there; told hears that, too. What the gateway has of it already,
 * from an attempt before, is not sent again.
 */
export async function stage(file: Blob, send: (part: Part) => Promise<{ received: bigint }>, told: (received: number) => void): Promise<string> {
  if (file.size === 0) throw new Error("the file is empty: choose one that ends in .palyra-skill");
  if (file.size > mostBytes) throw new Error(`the file has ${file.size.toLocaleString()} bytes, and a package has at most ${mostBytes.toLocaleString()}`);
  const digest = await digestOf(file);
  for (let offset = 0; offset < file.size; ) {
    const data = await read(file, offset);
    const { received } = await send({ digest, size: BigInt(file.size), offset: BigInt(offset), data });
    const there = Number(received);
    if (there <= offset || there > file.size) throw new Error(`the gateway says that it has ${there.toLocaleString()} bytes of ${file.size.toLocaleString()} after those from ${offset.toLocaleString()} on were sent`);
    told(there);
    offset = there;
  }
  return digest;
}

async function digestOf(file: Blob): Promise<string> {
  const sum = new Sha256();
  for (let offset = 0; offset < file.size; offset += partSize) sum.update(await read(file, offset));
  return `sha256:${hex(sum.digest())}`;
}

async function read(file: Blob, offset: number): Promise<Uint8Array> {
  return new Uint8Array(await file.slice(offset, offset + partSize).arrayBuffer());
}
