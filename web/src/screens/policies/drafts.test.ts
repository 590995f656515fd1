import { expect, test } from "vitest";
import { readDrafts, updateDrafts } from "./drafts";

const draft = (id: string, text = "permit", name = "a.cedar") => ({ id, name, text, at: 1 });

test("a change replaces the draft, newest first", () => {
  const kept = updateDrafts([draft("1"), draft("2")], "2", { name: "a.cedar", text: "forbid" }, 5);
  expect(kept).toEqual([{ id: "2", name: "a.cedar", text: "forbid", at: 5 }, draft("1")]);
});

test("an empty draft is removed unless it has a name", () => {
  expect(updateDrafts([draft("1")], "1", { name: "50-new.cedar", text: " \n" }, 5)).toEqual([]);
  expect(updateDrafts([], "1", { name: "mine.cedar", text: "" }, 5)).toHaveLength(1);
});

test("the number of drafts is limited", () => {
  const many = Array.from({ length: 50 }, (_, i) => draft(`${i}`));
  const kept = updateDrafts(many, "new", { name: "a.cedar", text: "x" }, 5);
  expect(kept).toHaveLength(50);
  expect(kept[0]?.id).toBe("new");
});

test("invalid drafts are ignored", () => {
  expect(readDrafts(null)).toEqual([]);
  expect(readDrafts("{")).toEqual([]);
  expect(readDrafts(JSON.stringify([draft("1"), { id: 5 }, null]))).toEqual([draft("1")]);
});
