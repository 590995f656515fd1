import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Source } from "./connection";
import { Connection } from "./connection";
import type { Kind, LiveEvent } from "./events";

// One browser: channels that reach every tab but the sender, and locks of which one tab
// has each. Both as the browser's, in memory.
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
let taken = false;

function next(): void {
  const turn = taken ? undefined : queue.shift();
  if (turn === undefined) return;
  if (turn.signal.aborted) {
    next();
    return;
  }
  taken = true;
  void turn.run().finally(() => {
    taken = false;
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

/** A gateway whose streams the test feeds. */
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
  over = (thrown: unknown) => thrown instanceof Error && thrown.message === "over";
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

function tab(): { live: Connection; heard: number[] } {
  const live = new Connection(gateway, "live", over);
  open.push(live);
  const heard: number[] = [];
  live.subscribe((e) => {
    if (e.kind !== "reset") heard.push(e.sequence);
  });
  return { live, heard };
}

// Lets all that is ready happen, and so much time pass.
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

test("all tabs hear of one stream", async () => {
  const [a, b] = [tab(), tab()];
  await settle();
  expect(gateway.opened).toHaveLength(1);
  gateway.last().give(event(7));
  await settle();
  expect([a.heard, b.heard]).toEqual([[7], [7]]);
  expect([a.live.state().mark, b.live.state().mark]).toEqual(["live", "live"]);
});

test("what was asked for before the stream began is asked for again", async () => {
  const kinds: string[] = [];
  const { live } = tab();
  live.subscribe((e) => kinds.push(e.kind));
  await settle();
  gateway.last().give(event(7));
  await settle();
  expect(kinds).toEqual(["reset", "run"]);
});

test("when the leader goes, another resumes after what it heard", async () => {
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
  expect(b.heard).toEqual([7, 8]);
});

test("a stream that breaks is stale until it is back, and misses nothing", async () => {
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
  expect(a.heard).toEqual([3, 4]);
});

test("a stream that says nothing is given up", async () => {
  const a = tab();
  await settle();
  gateway.last().give(event(3));
  await settle(4_000);
  expect(a.live.state().mark).toBe("live");
  await settle(1_000);
  expect(a.live.state().mark).toBe("stale");
});

test("a follower and a tab at its start learn of the silence as fast", async () => {
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

test("a pause holds events back, and urgent listeners hear them", async () => {
  const a = tab();
  const urgent: number[] = [];
  a.live.subscribeUrgent((e) => urgent.push(e.sequence));
  await settle();
  a.live.pause();
  gateway.last().give(event(1));
  gateway.last().give(event(2));
  await settle();
  expect([a.heard, urgent, a.live.state().held]).toEqual([[], [1, 2], 2]);
  a.live.resume();
  expect([a.heard, a.live.state().held]).toEqual([[1, 2], 0]);
});

test("a session that is over is not tried again", async () => {
  tab();
  await settle();
  gateway.last().fail(new Error("over"));
  await settle(60_000);
  expect(over).toHaveBeenCalledOnce();
  expect(gateway.opened).toHaveLength(1);
});

test("a tab that is opened later knows how the gateway is", async () => {
  tab();
  await settle();
  gateway.last().give({ ...event(5, "status"), status: { frozen: true, pending: 3 } });
  await settle();
  const late = new Connection(gateway, "live", over);
  open.push(late);
  await settle();
  expect(late.state()).toMatchObject({ mark: "live", gateway: { frozen: true, pending: 3 } });
});
