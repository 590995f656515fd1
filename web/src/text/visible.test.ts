import { expect, test } from "vitest";
import { escapeInvisible, oneLine, visibleText, makeVisible } from "./visible";

test("plain text stays one piece", () => {
  expect(makeVisible("git push\n\torigin main")).toEqual([{ text: "git push\n\torigin main" }]);
});

test("bidirectional, invisible and control characters are made visible", () => {
  expect(visibleText("a\u202eb")).toBe("a⟨RLO⟩b");
  expect(visibleText("\u001b[31mred")).toBe("⟨ESC⟩[31mred");
  expect(visibleText("pay\u200bpal")).toBe("pay⟨ZWSP⟩pal");
  expect(visibleText("a\u0000b\u0085c\u00a0d\u3000e")).toBe("a⟨NUL⟩b⟨NEL⟩c⟨NBSP⟩d⟨U+3000⟩e");
  expect(visibleText("tag\u{e0041}")).toBe("tag⟨U+E0041⟩");
  expect(visibleText("\ud800")).toBe("⟨U+D800⟩");
  expect(visibleText("\u2800\ufe0f\u{e0100}")).toBe("⟨U+2800⟩⟨U+FE0F⟩⟨U+E0100⟩");
});

// The rows of lookalikeCases in internal/core/text.
test("letters of other scripts that look like ASCII are made visible in mixed words", () => {
  expect(visibleText("\u0430gent.json")).toBe("⟨U+0430⟩gent.json");
  expect(visibleText("g\u0456thub/search")).toBe("g⟨U+0456⟩thub/search");
  expect(visibleText("\u{1d41a}bc v\u06f1 p\u03bfrt")).toBe("⟨U+1D41A⟩bc v⟨U+06F1⟩ p⟨U+03BF⟩rt");
  for (const clear of ["\u0441\u043e\u0440.txt", "yap\u0131m\u0131", "na\u00efve caf\u00e9", "USB-\u043a\u0430\u0431\u0435\u043b\u044c", "\u4e2d\u6587abc", "don\u2019t", "5 \u00b5s"]) {
    expect(visibleText(clear)).toBe(clear);
  }
  expect(escapeInvisible('{"path":"\u0430gent.json"}')).toBe('{"path":"\\u0430gent.json"}');
});

test("a lone carriage return is made visible, CR LF is not", () => {
  expect(visibleText("a\r\nb")).toBe("a\nb");
  expect(visibleText("safe\rrm -rf")).toBe("safe⟨CR⟩rm -rf");
});

test("markup stays text", () => {
  expect(makeVisible("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>" }]);
});

test("oneLine bounds its length and its time", () => {
  const started = performance.now();
  const line = oneLine("x".repeat(1 << 20), 80);
  expect(line).toHaveLength(81);
  expect(performance.now() - started).toBeLessThan(50);
  expect(oneLine("a\n  b", 80)).toBe("a b");
});
