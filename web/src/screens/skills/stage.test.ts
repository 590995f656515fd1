import { expect, test } from "vitest";
import { hex } from "../../verify/bytes";
import { sha256 } from "../../verify/sha256";
import type { Part } from "./stage";
import { mostBytes, partSize, stage } from "./stage";

/** A gateway that keeps what comes, and has some of it already. */
function keeping(had = 0) {
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
const unheard = () => undefined;

test("a package comes in parts, by the digest of the whole", async () => {
  const bytes = noise(2 * partSize + 5);
  const { parts, send } = keeping();
  const told: number[] = [];
  const digest = await stage(new Blob([bytes]), send, (n) => told.push(n));
  expect(digest).toBe(`sha256:${hex(sha256(bytes))}`);
  expect(parts.map(({ offset, data }) => [offset, data.length])).toEqual([
    [0n, partSize],
    [BigInt(partSize), partSize],
    [BigInt(2 * partSize), 5],
  ]);
  expect(new Set(parts.map((part) => `${part.digest} ${part.size}`))).toEqual(new Set([`${digest} ${bytes.length}`]));
  expect(hex(sha256(...parts.map(({ data }) => data)))).toBe(hex(sha256(bytes)));
  expect(told).toEqual([partSize, 2 * partSize, bytes.length]);
});

test("what is there already is not sent again", async () => {
  const bytes = noise(3 * partSize);
  const { parts, send } = keeping(2 * partSize + 7);
  await stage(new Blob([bytes]), send, unheard);
  expect(parts.map(({ offset, data }) => [Number(offset), data.length])).toEqual([
    [0, partSize],
    [2 * partSize + 7, partSize - 7],
  ]);
});

test("a file that can be no package is not sent", async () => {
  const { parts, send } = keeping();
  await expect(stage(new Blob([]), send, unheard)).rejects.toThrow("the file is empty");
  const large = Object.defineProperty(new Blob(["x"]), "size", { value: mostBytes + 1 });
  await expect(stage(large, send, unheard)).rejects.toThrow("67,108,864");
  expect(parts).toEqual([]);
});

test("a gateway that has less or more than was sent is not believed", async () => {
  for (const received of [0n, 4n]) {
    let asked = 0;
    const send = () => {
      asked++;
      return Promise.resolve({ received });
    };
    await expect(stage(new Blob(["abc"]), send, unheard)).rejects.toThrow("the gateway says");
    expect(asked).toBe(1);
  }
});

test("what the gateway refuses is passed on", async () => {
  await expect(stage(new Blob(["abc"]), () => Promise.reject(new Error("too many uploads")), unheard)).rejects.toThrow("too many uploads");
});
