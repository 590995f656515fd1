import { expect, test } from "vitest";
import { length, relative } from "./time";

test("two units at most", () => {
  expect(length(598_000)).toBe("9m 58s");
  expect(length(600_000)).toBe("10m");
  expect(length(3_600_000 * 52)).toBe("2d 4h");
  expect(length(3_601_000)).toBe("1h");
  expect(length(-5)).toBe("0s");
  expect(length(999)).toBe("0s");
});

test("before and after now", () => {
  expect(relative(0, 180_000)).toBe("3m ago");
  expect(relative(10_000, 0)).toBe("in 10s");
  expect(relative(500, 0)).toBe("now");
});
