import { act, cleanup, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { armingDelay, useArmed } from "./armed";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

function pass(millis: number): void {
  act(() => {
    vi.advanceTimersByTime(millis);
  });
}

test("a new decision is not armed immediately", () => {
  const hook = renderHook(() => useArmed("a"));
  expect(hook.result.current).toBe(false);
  pass(armingDelay - 1);
  expect(hook.result.current).toBe(false);
  pass(1);
  expect(hook.result.current).toBe(true);
});

test("a changed decision is not armed immediately", () => {
  const hook = renderHook(({ key }) => useArmed(key), { initialProps: { key: "digest 1" } });
  pass(armingDelay);
  expect(hook.result.current).toBe(true);
  hook.rerender({ key: "digest 2" });
  expect(hook.result.current).toBe(false);
  pass(armingDelay);
  expect(hook.result.current).toBe(true);
});

test("the focus of the window disarms the decision", () => {
  const hook = renderHook(() => useArmed("a"));
  pass(armingDelay);
  act(() => {
    window.dispatchEvent(new Event("focus"));
  });
  expect(hook.result.current).toBe(false);
  pass(armingDelay);
  expect(hook.result.current).toBe(true);
});
