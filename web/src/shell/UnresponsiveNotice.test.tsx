import { act, cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Source } from "../live/connection";
import { Connection } from "../live/connection";
import { LiveContext } from "../live/context";
import type { LiveEvent } from "../live/events";
import { UnresponsiveNotice } from "./UnresponsiveNotice";

const event: LiveEvent = { sequence: 1, kind: "heartbeat", id: "", run: "", code: "" };
let mute = false;

// A gateway that sends heartbeats while mute is false.
const gateway: Source = {
  async *open(_, signal) {
    for (;;) {
      if (!mute) yield event;
      await new Promise<void>((resolve, reject) => {
        setTimeout(resolve, 2_000);
        signal.addEventListener("abort", () => reject(new Error("aborted")));
      });
    }
  },
  isSessionEnd: () => false,
};

beforeEach(() => {
  vi.useFakeTimers();
  mute = false;
  Object.defineProperty(navigator, "locks", { value: { request: (_: string, __: unknown, run: () => Promise<void>) => run() }, configurable: true });
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test("the banner appears within five seconds without a response, until the next response", async () => {
  const live = new Connection(gateway, "banner", () => undefined);
  render(
    <LiveContext value={live}>
      <UnresponsiveNotice />
    </LiveContext>,
  );
  const pass = (millis: number) => act(() => vi.advanceTimersByTimeAsync(millis));
  await pass(20_100);
  expect(screen.queryByRole("alert")).toBeNull();
  mute = true;
  await pass(5_000);
  expect(screen.getByRole("alert").textContent).toContain("does not respond");
  mute = false;
  await pass(10_000);
  expect(screen.queryByRole("alert")).toBeNull();
  live.close();
});
