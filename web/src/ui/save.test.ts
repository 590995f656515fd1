import { expect, test } from "vitest";
import { fileName, collect } from "./save";

async function* parts(...texts: string[]) {
  for (const text of texts) yield await Promise.resolve({ data: new TextEncoder().encode(text) });
}

test("parts are joined in order", async () => {
  const progress: number[] = [];
  expect(await (await collect(parts("one,", "two,", "three"), (bytes) => progress.push(bytes))).text()).toBe("one,two,three");
  expect(progress.at(-1)).toBe(13);
  expect((await collect(parts(), () => undefined)).size).toBe(0);
});

test("a failed part fails the whole export", async () => {
  async function* broken() {
    yield await Promise.resolve({ data: new Uint8Array(3) });
    throw new Error("the gateway hung up");
  }
  await expect(collect(broken(), () => undefined)).rejects.toThrow("hung up");
});

test("names sort by time", () => {
  expect(fileName("journal", "csv", new Date("2026-01-31T12:00:00.123Z"))).toBe("palyra-journal-20260131T120000Z.csv");
});
