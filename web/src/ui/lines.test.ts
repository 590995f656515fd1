import { expect, test } from "vitest";
import { differences } from "./lines";

const signed = (was: string, is: string) => differences(was.split(" "), is.split(" ")).lines.map((line) => line.kind.trim() + line.text);

test("what both have stays, what one has is gone or new", () => {
  expect(signed("a b c", "a x c")).toEqual(["a", "-b", "+x", "c"]);
  expect(signed("a b c d e", "b c x e f")).toEqual(["-a", "b", "c", "-d", "+x", "e", "+f"]);
  expect(signed("a", "a")).toEqual(["a"]);
});

test("of what is the same, a few lines around the difference are shown", () => {
  const hunk = differences("a b c d e f g".split(" "), "a b c d e f X".split(" "));
  expect(hunk.lines.map((line) => line.kind.trim() + line.text)).toEqual(["d", "e", "f", "-g", "+X"]);
  expect([hunk.oldStart, hunk.newStart]).toEqual([4, 4]);
});

test("texts that are too long to compare are shown whole", () => {
  const many = (word: string) => Array.from({ length: 1500 }, (_, i) => `${word}${i}`);
  const { lines } = differences(many("a"), many("b"));
  expect(lines.filter((line) => line.kind === "-")).toHaveLength(1500);
  expect(lines.filter((line) => line.kind === "+")).toHaveLength(1500);
});
