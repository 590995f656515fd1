import { expect, test } from "vitest";
import { diffLines } from "./lines";

const signed = (was: string, is: string) => diffLines(was.split(" "), is.split(" ")).lines.map((line) => line.kind.trim() + line.text);

test("common lines are context, the others removed or added", () => {
  expect(signed("a b c", "a x c")).toEqual(["a", "-b", "+x", "c"]);
  expect(signed("a b c d e", "b c x e f")).toEqual(["-a", "b", "c", "-d", "+x", "e", "+f"]);
  expect(signed("a", "a")).toEqual(["a"]);
});

test("the hunk has three lines of context", () => {
  const hunk = diffLines("a b c d e f g".split(" "), "a b c d e f X".split(" "));
  expect(hunk.lines.map((line) => line.kind.trim() + line.text)).toEqual(["d", "e", "f", "-g", "+X"]);
  expect([hunk.oldStart, hunk.newStart]).toEqual([4, 4]);
});

test("texts that are too long to compare are replaced completely", () => {
  const many = (word: string) => Array.from({ length: 1500 }, (_, i) => `${word}${i}`);
  const { lines } = diffLines(many("a"), many("b"));
  expect(lines.filter((line) => line.kind === "-")).toHaveLength(1500);
  expect(lines.filter((line) => line.kind === "+")).toHaveLength(1500);
});
