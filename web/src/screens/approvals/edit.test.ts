import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { changes, diffOf, editable, inputOf, whyNot } from "./edit";

const ask = (text: string, redacted: string[] = []) => create(ApprovalSchema, { prompt: { argumentsJson: new TextEncoder().encode(text), redacted } });
const shown = ask('{"content":"one\\ntwo\\nthree","key":"[redacted]","n":9007199254740993}', ["/key"]);

test("what is edited is what was shown, and says what hides", () => {
  expect(whyNot(shown, editable(shown))).toBe("Nothing is changed yet.");
  expect(editable(shown)).toContain("9007199254740993");
  const hostile = ask('{"a":"x\u202ey"}');
  expect(editable(hostile)).toBe('{\n  "a": "x\\u202ey"\n}');
  expect(changes(hostile, editable(hostile))).toEqual([]);
});

test("arguments are checked before they are sent", () => {
  expect(whyNot(shown, '{"content":')).toMatch(/no JSON/);
  expect(whyNot(shown, "[1]")).toMatch(/one JSON object/);
  expect(whyNot(shown, '{"content":"x","key":"mine","n":9007199254740993}')).toMatch(/\/key is hidden/);
  expect(whyNot(shown, '{"content":"x","n":9007199254740993}')).toMatch(/\/key is hidden/);
  expect(whyNot(shown, '{"content":"x","key":"[redacted]","n":9007199254740993}')).toBeUndefined();
  expect(whyNot(shown, JSON.stringify({ content: "x".repeat(1 << 20), key: "[redacted]" }))).toMatch(/1 MiB/);
  expect(new TextDecoder().decode(inputOf('{ "n" : 9007199254740995 }'))).toBe('{"n":9007199254740995}');
});

test("a change is shown by place and line", () => {
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
