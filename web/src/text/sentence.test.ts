import { expect, test } from "vitest";

import { sentence } from "./sentence";

test("sentence adds the capital and the full stop", () => {
  for (const [text, want] of [
    ["", ""],
    ["the package is too large", "The package is too large."],
    ["It is not signed.", "It is not signed."],
    ["what now?", "What now?"],
    ["one of these:", "One of these:"],
  ] as const) {
    expect(sentence(text)).toBe(want);
  }
});
