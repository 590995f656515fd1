import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Source } from "./connection";
import { Connection } from "./connection";
import type { Kind, LiveEvent } from "./events";

// In-memory versions of the browser's BroadcastChannel, which reaches every tab except the
// sender, and of its exclusive locks.
class Channel {
  static all = new Set<Channel>();
  onmessage: ((message: { data: unknown }) => void) | null = null;
  name: string;
  constructor(name: string) {
    this.name = name;
    Channel.all.add(this);
  }
  postMessage(data: unknown) {
    for (const other of Channel.all) if (other !== this && other.name === this.name) other.onmessage?.({ data: structuredClone(data) });
  }
  close() {
    Channel.all.delete(this);
  }
}

const queue: { run: () => Promise<void>; signal: AbortSignal }[] = [];
let isLocked = false;

function next(): void {
  const request = isLocked ? undefined : queue.shift();
  if (request === undefined) return;
  if (request.signal.aborted) {
    next();
    return;
  }
  isLocked = true;
  void request.run().finally(() => {
    isLocked = false;
    next();
  });
}

const locks = {
  request: (_: string, options: { signal: AbortSignal }, run: () => Promise<void>) => {
    queue.push({ run, signal: options.signal });
    next();
    return Promise.resolve();
  },
};

/** A gateway with streams controlled by the test. */
class Gateway implements Source {
  opened: { after: number; give: (event: LiveEvent) => void; fail: (thrown: Error) => void }[] = [];
  async *open(after: number, signal: AbortSignal): AsyncIterable<LiveEvent> {
    const events: LiveEvent[] = [];
    let thrown: Error | undefined;
    let wake: () => void = () => undefined;
    signal.addEventListener("abort", () => {
      thrown = new Error("aborted");
      wake();
    });
    this.opened.push({
      after,
      give: (event) => {
        events.push(event);
        wake();
      },
      fail: (error) => {
        thrown = error;
        wake();
      },
    });
    for (;;) {
      const event = events.shift();
      if (event !== undefined) {
        yield event;
        continue;
      }
      if (thrown !== undefined) throw thrown;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }
  isSessionEnd = (thrown: unknown) => thrown instanceof Error && thrown.message === "over";
  last() {
    const stream = this.opened.at(-1);
    if (stream === undefined) throw new Error("no stream was opened");
    return stream;
  }
}

function event(sequence: number, kind: Kind = "run"): LiveEvent {
  return { sequence, kind, id: `r${sequence}`, run: "", code: "" };
}

const open: Connection[] = [];
let gateway: Gateway;
const over = vi.fn();

function tab(): { live: Connection; received: number[] } {
  const live = new Connection(gateway, "live", over);
  open.push(live);
  const received: number[] = [];
  live.subscribe((e) => {
    if (e.kind !== "reset") received.push(e.sequence);
  });
  return { live, received };
}

// Runs all pending work and advances the time.
const settle = (millis = 0) => vi.advanceTimersByTimeAsync(millis);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("BroadcastChannel", Channel);
  Object.defineProperty(navigator, "locks", { value: locks, configurable: true });
  gateway = new Gateway();
  over.mockReset();
});

afterEach(async () => {
  for (const live of open.splice(0)) live.close();
  await settle();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("one stream serves all tabs", async () => {
  const [a, b] = [tab(), tab()];
  await settle();
  expect(gateway.opened).toHaveLength(1);
  gateway.last().give(event(7));
  await settle();
  expect([a.received, b.received]).toEqual([[7], [7]]);
  expect([a.live.state().mark, b.live.state().mark]).toEqual(["live", "live"]);
});

test("the start of the stream resets earlier queries", async () => {
  const kinds: string[] = [];
  const { live } = tab();
  live.subscribe((e) => kinds.push(e.kind));
  await settle();
  gateway.last().give(event(7));
  await settle();
  expect(kinds).toEqual(["reset", "run"]);
});

test("a new leader resumes after the last received event", async () => {
  const [a, b] = [tab(), tab()];
  await settle();
  gateway.last().give(event(7));
  await settle();
  a.live.close();
  await settle();
  expect(gateway.opened).toHaveLength(2);
  expect(gateway.last().after).toBe(7);
  gateway.last().give(event(8));
  await settle();
  expect(b.received).toEqual([7, 8]);
});

test("a broken stream is stale until it resumes without gaps", async () => {
  const a = tab();
  await settle();
  gateway.last().give(event(3));
  await settle();
  gateway.last().fail(new TypeError("Failed to fetch"));
  await settle();
  expect(a.live.state().mark).toBe("stale");
  await settle(1_000);
  expect(gateway.opened).toHaveLength(2);
  expect(gateway.last().after).toBe(3);
  gateway.last().give(event(4));
  await settle();
  expect(a.live.state().mark).toBe("live");
  expect(a.received).toEqual([3, 4]);
});

test("a silent stream becomes stale", async () => {
  const a = tab();
  await settle();
  gateway.last().give(event(3));
  await settle(4_000);
  expect(a.live.state().mark).toBe("live");
  await settle(1_000);
  expect(a.live.state().mark).toBe("stale");
});

test("followers and new tabs detect silence as fast as the leader", async () => {
  const [leader, follower] = [tab(), tab()];
  await settle();
  gateway.last().give(event(3));
  await settle(5_000);
  expect([leader.live.state().mark, follower.live.state().mark]).toEqual(["stale", "stale"]);
  const first = new Connection(new Gateway(), "another member", over);
  open.push(first);
  await settle(5_000);
  expect(first.state().mark).toBe("stale");
});

test("a pause queues events, except for urgent listeners", async () => {
  const a = tab();
  const urgent: number[] = [];
  a.live.subscribeUrgent((e) => urgent.push(e.sequence));
  await settle();
  a.live.pause();
  gateway.last().give(event(1));
  gateway.last().give(event(2));
  await settle();
  expect([a.received, urgent, a.live.state().queued]).toEqual([[], [1, 2], 2]);
  a.live.resume();
  expect([a.received, a.live.state().queued]).toEqual([[1, 2], 0]);
});

test("an ended session is not retried", async () => {
  tab();
  await settle();
  gateway.last().fail(new Error("over"));
  await settle(60_000);
  expect(over).toHaveBeenCalledOnce();
  expect(gateway.opened).toHaveLength(1);
});

test("a new tab receives the status of the gateway", async () => {
  tab();
  await settle();
  gateway.last().give({ ...event(5, "status"), status: { frozen: true, pending: 3 } });
  await settle();
  const late = new Connection(gateway, "live", over);
  open.push(late);
  await settle();
  expect(late.state()).toMatchObject({ mark: "live", gateway: { frozen: true, pending: 3 } });
});
