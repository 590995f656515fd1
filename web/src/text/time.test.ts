import { expect, test } from "vitest";
import { formatDuration, formatRelative } from "./time";

test("length has at most two units", () => {
  expect(formatDuration(598_000)).toBe("9m 58s");
  expect(formatDuration(600_000)).toBe("10m");
  expect(formatDuration(3_600_000 * 52)).toBe("2d 4h");
  expect(formatDuration(3_601_000)).toBe("1h");
  expect(formatDuration(-5)).toBe("0s");
  expect(formatDuration(999)).toBe("0s");
});

test("relative names past and future", () => {
  expect(formatRelative(0, 180_000)).toBe("3m ago");
  expect(formatRelative(10_000, 0)).toBe("in 10s");
  expect(formatRelative(500, 0)).toBe("now");
});
