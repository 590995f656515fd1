import { expect, test } from "vitest";
import type { List } from "./backwards";
import { backwards } from "./backwards";

// A journal of so many events, of which a filter chooses some, listed as the gateway does.
function journal(size: number, chosen: (seq: number) => boolean, most = 1000): { list: List<number>; asked: () => number } {
  let asked = 0;
  return {
    asked: () => asked,
    list: (after) => {
      asked++;
      const events: number[] = [];
      let seq = after + 1;
      for (; seq <= size && events.length < most; seq++) if (chosen(seq)) events.push(seq);
      return Promise.resolve({ events, nextAfter: events.length === most ? (events[events.length - 1] ?? 0) : 0 });
    },
  };
}
const self = (seq: number) => seq;

test("the newest first, and on from there, with none twice and none left out", async () => {
  const { list } = journal(1234, () => true);
  const seen: number[] = [];
  for (let at = 1234; at > 0; ) {
    const page = await backwards(list, self, at, 200);
    seen.push(...page.events);
    at = page.next;
  }
  expect(seen).toEqual(Array.from({ length: 1234 }, (_, i) => 1234 - i));
});

test("what came after the head is left for later", async () => {
  const { list } = journal(500, () => true);
  expect((await backwards(list, self, 300, 10)).events[0]).toBe(300);
});

test("little of a million events takes few requests", async () => {
  const { list, asked } = journal(1_000_000, (seq) => seq === 3 || seq === 700_001);
  expect(await backwards(list, self, 1_000_000, 100)).toEqual({ events: [700_001, 3], next: 0 });
  expect(asked()).toBeLessThan(12);
});

test("a crowd behind a desert is read from its end", async () => {
  const { list, asked } = journal(200_000, (seq) => seq <= 100_000);
  const page = await backwards(list, self, 200_000, 100);
  expect(page.events.slice(0, 3)).toEqual([100_000, 99_999, 99_998]);
  expect(page.events.every((seq, i) => seq === 100_000 - i)).toBe(true);
  expect(asked()).toBeLessThan(20);
});

test("pages cut short by their size are read on", async () => {
  const { list } = journal(400, () => true, 7);
  const page = await backwards(list, self, 400, 50);
  expect(page.events).toEqual(Array.from({ length: 200 }, (_, i) => 400 - i));
});

test("nothing is nothing", async () => {
  const { list } = journal(0, () => true);
  expect(await backwards(list, self, 0, 100)).toEqual({ events: [], next: 0 });
});
