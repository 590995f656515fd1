import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { changes, diffOf, editableText, inputOf, inputProblem } from "./edit";

const approvalOf = (text: string, redacted: string[] = []) => create(ApprovalSchema, { prompt: { argumentsJson: new TextEncoder().encode(text), redacted } });
const shown = approvalOf('{"content":"one\\ntwo\\nthree","key":"[redacted]","n":9007199254740993}', ["/key"]);

test("editable returns the displayed arguments with invisible characters escaped", () => {
  expect(inputProblem(shown, editableText(shown))).toBe("No changes yet.");
  expect(editableText(shown)).toContain("9007199254740993");
  const hostile = approvalOf('{"a":"x\u202ey"}');
  expect(editableText(hostile)).toBe('{\n  "a": "x\\u202ey"\n}');
  expect(changes(hostile, editableText(hostile))).toEqual([]);
});

test("arguments are validated before they are sent", () => {
  expect(inputProblem(shown, '{"content":')).toMatch(/not valid JSON/);
  expect(inputProblem(shown, "[1]")).toMatch(/must be one JSON object/);
  expect(inputProblem(shown, '{"content":"x","key":"mine","n":9007199254740993}')).toMatch(/\/key is redacted/);
  expect(inputProblem(shown, '{"content":"x","n":9007199254740993}')).toMatch(/\/key is redacted/);
  expect(inputProblem(shown, '{"content":"x","key":"[redacted]","n":9007199254740993}')).toBeUndefined();
  expect(inputProblem(shown, JSON.stringify({ content: "x".repeat(1 << 20), key: "[redacted]" }))).toMatch(/1 MiB/);
  expect(new TextDecoder().decode(inputOf('{ "n" : 9007199254740995 }'))).toBe('{"n":9007199254740995}');
});

test("changes have a pointer and a diff by line", () => {
  const list = changes(shown, '{"content":"one\\n2\\nthree","n":9007199254740992,"more":[1]}');
  expect(list).toEqual([
    { pointer: "/content", was: '"one\\ntwo\\nthree"', is: '"one\\n2\\nthree"' },
    { pointer: "/key", was: '"[redacted]"', is: undefined },
    { pointer: "/n", was: "9007199254740993", is: "9007199254740992" },
    { pointer: "/more/0", was: undefined, is: "1" },
  ]);
  const [content, , , more] = diffOf(list);
  expect(content?.hunks[0]?.lines.map((l) => l.kind + l.text)).toEqual([" one", "-two", "+2", " three"]);
  expect(more).toMatchObject({ kind: "create", path: "/more/0", hunks: [{ lines: [{ kind: "+", text: "1" }] }] });
});
