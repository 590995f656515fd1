import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import type { LiveState, Mark } from "./connection";
import { followQueries } from "./invalidate";

/** A connection with a mark set by the test. */
class Tab {
  #state: LiveState = { mark: "live", since: 0, paused: false, queued: 0, gateway: undefined };
  #changed: () => void = () => undefined;
  readonly state = () => this.#state;
  readonly watch = (changed: () => void) => {
    this.#changed = changed;
    return () => (this.#changed = () => undefined);
  };
  subscribe = () => () => undefined;
  mark(mark: Mark) {
    this.#state = { ...this.#state, mark };
    this.#changed();
  }
}

test("only failed queries are fetched again when the connection returns", async () => {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const tab = new Tab();
  const stop = followQueries(tab, queries);
  let down = true;
  const reads = { list: 0, roles: 0 };
  const list = new QueryObserver(queries, {
    queryKey: ["approvals"],
    queryFn: () => {
      reads.list++;
      return down ? Promise.reject(new TypeError("Failed to fetch")) : Promise.resolve("three");
    },
  });
  const roles = new QueryObserver(queries, { queryKey: ["roles"], queryFn: () => Promise.resolve(++reads.roles) });
  const leave = [list.subscribe(() => undefined), roles.subscribe(() => undefined)];
  await vi.waitFor(() => expect([list.getCurrentResult().status, roles.getCurrentResult().status]).toEqual(["error", "success"]));

  tab.mark("stale");
  expect(reads).toEqual({ list: 1, roles: 1 });
  down = false;
  tab.mark("live");
  await vi.waitFor(() => expect(list.getCurrentResult().data).toBe("three"));
  tab.mark("live");
  expect(reads).toEqual({ list: 2, roles: 1 });

  stop();
  for (const end of leave) end();
  queries.clear();
});

test("a query that waits for its next retry is fetched immediately", async () => {
  vi.useFakeTimers();
  const queries = new QueryClient({ defaultOptions: { queries: { retry: 5, retryDelay: 60_000 } } });
  const tab = new Tab();
  const stop = followQueries(tab, queries);
  let down = true;
  const list = new QueryObserver(queries, { queryKey: ["approvals"], queryFn: () => (down ? Promise.reject(new TypeError("Failed to fetch")) : Promise.resolve("three")) });
  const leave = list.subscribe(() => undefined);
  await vi.advanceTimersByTimeAsync(1);
  expect(list.getCurrentResult().failureCount).toBe(1);
  tab.mark("stale");
  down = false;
  tab.mark("live");
  await vi.advanceTimersByTimeAsync(1);
  expect(list.getCurrentResult().data).toBe("three");

  stop();
  leave();
  queries.clear();
  vi.useRealTimers();
});
