import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { PolicyFindingSchema, PolicySourceSchema } from "../../gen/palyra/v1/policy_pb";
import { caret, parseCall, severityByLine, offsetOf, withSource } from "./words";

test("caret points at its column after tabs and wide characters", () => {
  expect(caret("permit(x)", 1)).toBe("^");
  expect(caret("\tforbid", 3)).toBe("\t ^");
  expect(caret("😀a", 2)).toBe(" ^");
  expect(caret("a", 0)).toBe("");
});

test("offsetOf converts a line and column to an offset", () => {
  expect(offsetOf("ab\ncd\nef", 2, 2)).toBe(4);
  expect(offsetOf("ab\ncd", 9, 9)).toBe(5);
  expect(offsetOf("", 1, 1)).toBe(0);
});

test("an error takes precedence over a warning of the same line", () => {
  const finding = (line: number, severity: string, file = "a.cedar") => create(PolicyFindingSchema, { file, line, severity });
  const found = severityByLine([finding(1, "error"), finding(1, "warning"), finding(2, "warning"), finding(3, "error", "b.cedar")], "a.cedar");
  expect([...found]).toEqual([
    [1, "error"],
    [2, "warning"],
  ]);
});

test("withSource replaces the file of the same name and sorts by name", () => {
  const sources = ["20-b.cedar", "10-a.cedar"].map((name) => create(PolicySourceSchema, { name, text: "old" }));
  expect(withSource(sources, "20-b.cedar", "new")).toEqual([
    { name: "10-a.cedar", text: "old" },
    { name: "20-b.cedar", text: "new" },
  ]);
  expect(withSource(sources, "15-c.cedar", "new").map((s) => s.name)).toEqual(["10-a.cedar", "15-c.cedar", "20-b.cedar"]);
});

test("input and facts must be JSON objects", () => {
  const form = { tool: " process.run ", principal: "", input: '{"argv":["make"]}', facts: "" };
  const good = parseCall(form);
  expect("call" in good && [good.call.tool, new TextDecoder().decode(good.call.inputJson), good.call.factsJson.length]).toEqual(["process.run", form.input, 0]);
  expect(parseCall({ ...form, tool: " " })).toEqual({ problem: "Enter a tool." });
  expect(parseCall({ ...form, input: "[1]" })).toEqual({ problem: "The input is not a JSON object." });
  expect(parseCall({ ...form, facts: "{" })).toEqual({ problem: "The facts are not a JSON object." });
});
