import { expect, test } from "vitest";
import { fileName, gathered } from "./save";

async function* parts(...texts: string[]) {
  for (const text of texts) yield await Promise.resolve({ data: new TextEncoder().encode(text) });
}

test("parts become one file, in their order", async () => {
  const told: number[] = [];
  expect(await (await gathered(parts("one,", "two,", "three"), (bytes) => told.push(bytes))).text()).toBe("one,two,three");
  expect(told.at(-1)).toBe(13);
  expect((await gathered(parts(), () => undefined)).size).toBe(0);
});

test("a part that fails leaves no half of a file", async () => {
  async function* broken() {
    yield await Promise.resolve({ data: new Uint8Array(3) });
    throw new Error("the gateway hung up");
  }
  await expect(gathered(broken(), () => undefined)).rejects.toThrow("hung up");
});

test("names sort by time", () => {
  expect(fileName("journal", "csv", new Date("2026-01-31T12:00:00.123Z"))).toBe("palyra-journal-20260131T120000Z.csv");
});
