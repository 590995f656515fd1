import { expect, test } from "vitest";
import { oneLine, plain, visible } from "./visible";

test("plain text is one piece", () => {
  expect(visible("git push\n\torigin main")).toEqual([{ text: "git push\n\torigin main" }]);
});

test("what reorders, hides or drives a terminal is seen", () => {
  expect(plain("a\u202eb")).toBe("a⟨RLO⟩b");
  expect(plain("\u001b[31mred")).toBe("⟨ESC⟩[31mred");
  expect(plain("pay\u200bpal")).toBe("pay⟨ZWSP⟩pal");
  expect(plain("a\u0000b\u0085c\u00a0d\u3000e")).toBe("a⟨NUL⟩b⟨NEL⟩c⟨NBSP⟩d⟨U+3000⟩e");
  expect(plain("tag\u{e0041}")).toBe("tag⟨U+E0041⟩");
  expect(plain("\ud800")).toBe("⟨U+D800⟩");
  expect(plain("\u2800\ufe0f\u{e0100}")).toBe("⟨U+2800⟩⟨U+FE0F⟩⟨U+E0100⟩");
});

test("a lone carriage return is seen, a line end is not", () => {
  expect(plain("a\r\nb")).toBe("a\nb");
  expect(plain("safe\rrm -rf")).toBe("safe⟨CR⟩rm -rf");
});

test("markup stays text", () => {
  expect(visible("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>" }]);
});

test("a line is short however long the text is", () => {
  const started = performance.now();
  const line = oneLine("x".repeat(1 << 20), 80);
  expect(line).toHaveLength(81);
  expect(performance.now() - started).toBeLessThan(50);
  expect(oneLine("a\n  b", 80)).toBe("a b");
});
