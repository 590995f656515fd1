// The upload of a package in parts, identified by its digest.
import { hex } from "../../verify/bytes";
import { Sha256 } from "../../verify/sha256";

/** The maximum sizes of a part and of a package, in bytes. */
export const partSize = 1 << 20;
export const maxBytes = 64 << 20;

export interface Part {
  digest: string;
  size: bigint;
  offset: bigint;
  data: Uint8Array;
}

/**
 * Uploads a package and returns its digest. send uploads one part and returns the number of
 * bytes that the gateway has, which is also passed to onProgress. Bytes from an earlier attempt
 * are not sent again.
 */
export async function stage(file: Blob, send: (part: Part) => Promise<{ received: bigint }>, onProgress: (received: number) => void): Promise<string> {
  if (file.size === 0) throw new Error("the file is empty: select a file that ends in .palyra-skill");
  if (file.size > maxBytes) throw new Error(`the file has ${file.size.toLocaleString()} bytes: the limit is ${maxBytes.toLocaleString()}`);
  const digest = await digestOf(file);
  for (let offset = 0; offset < file.size; ) {
    const data = await read(file, offset);
    const response = await send({ digest, size: BigInt(file.size), offset: BigInt(offset), data });
    const received = Number(response.received);
    if (received <= offset || received > file.size) throw new Error(`the gateway reports ${received.toLocaleString()} of ${file.size.toLocaleString()} bytes after the part at offset ${offset.toLocaleString()}`);
    onProgress(received);
    offset = received;
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
