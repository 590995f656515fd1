import { expect, test } from "vitest";
import { readDrafts, written } from "./drafts";

const draft = (id: string, text = "permit", name = "a.cedar") => ({ id, name, text, at: 1 });

test("what is written takes the place of what was, the newest first", () => {
  const kept = written([draft("1"), draft("2")], "2", { name: "a.cedar", text: "forbid" }, 5);
  expect(kept).toEqual([{ id: "2", name: "a.cedar", text: "forbid", at: 5 }, draft("1")]);
});

test("a draft of which nothing is left is none; a name that was given stays", () => {
  expect(written([draft("1")], "1", { name: "50-new.cedar", text: " \n" }, 5)).toEqual([]);
  expect(written([], "1", { name: "mine.cedar", text: "" }, 5)).toHaveLength(1);
});

test("no more are kept than a person reads", () => {
  const many = Array.from({ length: 50 }, (_, i) => draft(`${i}`));
  const kept = written(many, "new", { name: "a.cedar", text: "x" }, 5);
  expect(kept).toHaveLength(50);
  expect(kept[0]?.id).toBe("new");
});

test("what is no draft is not read", () => {
  expect(readDrafts(null)).toEqual([]);
  expect(readDrafts("{")).toEqual([]);
  expect(readDrafts(JSON.stringify([draft("1"), { id: 5 }, null]))).toEqual([draft("1")]);
});
