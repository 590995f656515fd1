import { expect, test } from "vitest";
import { hex } from "../../verify/bytes";
import { sha256 } from "../../verify/sha256";
import type { Part } from "./stage";
import { maxBytes, partSize, stage } from "./stage";

/** A gateway that records parts and already has some bytes. */
function createGateway(had = 0) {
  const parts: Part[] = [];
  return {
    parts,
    send: (part: Part) => {
      parts.push(part);
      const end = Number(part.offset) + part.data.length;
      return Promise.resolve({ received: BigInt(Math.max(end, had)) });
    },
  };
}

const noise = (size: number) => Uint8Array.from({ length: size }, (_, i) => (i * 31) % 251);
const ignoreProgress = () => undefined;

test("a package is sent in parts with the digest of the whole", async () => {
  const bytes = noise(2 * partSize + 5);
  const { parts, send } = createGateway();
  const progress: number[] = [];
  const digest = await stage(new Blob([bytes]), send, (n) => progress.push(n));
  expect(digest).toBe(`sha256:${hex(sha256(bytes))}`);
  expect(parts.map(({ offset, data }) => [offset, data.length])).toEqual([
    [0n, partSize],
    [BigInt(partSize), partSize],
    [BigInt(2 * partSize), 5],
  ]);
  expect(new Set(parts.map((part) => `${part.digest} ${part.size}`))).toEqual(new Set([`${digest} ${bytes.length}`]));
  expect(hex(sha256(...parts.map(({ data }) => data)))).toBe(hex(sha256(bytes)));
  expect(progress).toEqual([partSize, 2 * partSize, bytes.length]);
});

test("an upload resumes after the stored bytes", async () => {
  const bytes = noise(3 * partSize);
  const { parts, send } = createGateway(2 * partSize + 7);
  await stage(new Blob([bytes]), send, ignoreProgress);
  expect(parts.map(({ offset, data }) => [Number(offset), data.length])).toEqual([
    [0, partSize],
    [2 * partSize + 7, partSize - 7],
  ]);
});

test("an empty or oversized file is not sent", async () => {
  const { parts, send } = createGateway();
  await expect(stage(new Blob([]), send, ignoreProgress)).rejects.toThrow("the file is empty");
  const large = Object.defineProperty(new Blob(["x"]), "size", { value: maxBytes + 1 });
  await expect(stage(large, send, ignoreProgress)).rejects.toThrow("67,108,864");
  expect(parts).toEqual([]);
});

test("an invalid number of received bytes is an error", async () => {
  for (const received of [0n, 4n]) {
    let requests = 0;
    const send = () => {
      requests++;
      return Promise.resolve({ received });
    };
    await expect(stage(new Blob(["abc"]), send, ignoreProgress)).rejects.toThrow("the gateway reports");
    expect(requests).toBe(1);
  }
});

test("an error of the gateway is returned", async () => {
  await expect(stage(new Blob(["abc"]), () => Promise.reject(new Error("too many uploads")), ignoreProgress)).rejects.toThrow("too many uploads");
});
