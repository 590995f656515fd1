// One stream of the gateway for all tabs of a browser. The tab that holds a Web Lock reads the
// stream and forwards the events over a BroadcastChannel. When that tab closes, another tab
// gets the lock and resumes after the last event that it received, so that no event is lost.
import type { LiveEvent } from "./events";

/** The source of the events. */
export interface Source {
  /** Streams the events after a sequence number (0: from now on) until the signal aborts. */
  open(after: number, signal: AbortSignal): AsyncIterable<LiveEvent>;
  /** Whether the stream failed because the session has ended; the stream is then not retried. */
  isSessionEnd(thrown: unknown): boolean;
}

/** The state of the stream in this tab. */
export type Mark = "connecting" | "live" | "stale";

export interface LiveState {
  mark: Mark;
  /** The time of the last change of the mark, in milliseconds. */
  since: number;
  /** Whether this tab queues events so that the page does not change. */
  paused: boolean;
  /** The number of queued events. */
  queued: number;
  /** The last status of the gateway. */
  gateway: { frozen: boolean; pending: number } | undefined;
}

type Message = { type: "event"; event: LiveEvent } | { type: "mark"; mark: Mark; sequence: number } | { type: "hello" };

type Listener = (event: LiveEvent) => void;

/** The maximum time between messages of the gateway. */
export const heartbeat = 2_000;
/** The timeout of the stream. Users see an unresponsive gateway within five seconds; one late heartbeat is tolerated. */
const silence = 2.25 * heartbeat;

export class Connection {
  #state: LiveState = { mark: "connecting", since: Date.now(), paused: false, queued: 0, gateway: undefined };
  #sequence = 0;
  #status: LiveEvent | undefined;
  #isLeading = false;
  #queued: LiveEvent[] = [];
  readonly #watchers = new Set<() => void>();
  readonly #listeners = new Set<Listener>();
  readonly #urgent = new Set<Listener>();
  readonly #closing = new AbortController();
  readonly #channel: BroadcastChannel;
  #silenceTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #source: Source;
  readonly #onSessionEnd: () => void;

  /** The name is per member, so that tabs of another member's session do not receive the events. */
  constructor(source: Source, name: string, over: () => void) {
    this.#source = source;
    this.#onSessionEnd = over;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = (message: MessageEvent<Message>) => this.#receive(message.data);
    this.#post({ type: "hello" });
    this.#restartSilenceTimer();
    navigator.locks
      .request(name, { signal: this.#closing.signal }, () => this.#lead())
      .catch(() => {
        // Closed while waiting for the lock.
      });
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#silenceTimer);
    this.#channel.close();
  }

  readonly state = (): LiveState => this.#state;

  readonly watch = (changed: () => void): (() => void) => {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  };

  /** Calls the listener for each event, or after a pause of this tab. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls the listener for each event, also while this tab is paused. */
  subscribeUrgent(listener: Listener): () => void {
    this.#urgent.add(listener);
    return () => this.#urgent.delete(listener);
  }

  pause(): void {
    this.#set({ paused: true });
  }

  resume(): void {
    const queuedEvents = this.#queued;
    this.#queued = [];
    this.#set({ paused: false, queued: 0 });
    for (const event of queuedEvents) this.#dispatch(this.#listeners, event);
  }

  async #lead(): Promise<void> {
    this.#isLeading = true;
    let failures = 0;
    while (!this.#isClosed()) {
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      this.#closing.signal.addEventListener("abort", stop);
      let watchdog = setTimeout(stop, silence);
      // Queries from before the start of the stream may be out of date.
      let fresh = this.#sequence === 0;
      try {
        for await (const event of this.#source.open(this.#sequence, attempt.signal)) {
          failures = 0;
          if (fresh) this.#dispatch(this.#listeners, { ...event, kind: "reset" });
          fresh = false;
          clearTimeout(watchdog);
          watchdog = setTimeout(stop, silence);
          this.#apply(event);
          this.#mark("live");
          this.#post({ type: "event", event });
        }
      } catch (thrown) {
        if (this.#source.isSessionEnd(thrown)) {
          this.#onSessionEnd();
          return;
        }
      } finally {
        clearTimeout(watchdog);
        this.#closing.signal.removeEventListener("abort", stop);
      }
      if (this.#isClosed()) return;
      this.#mark("stale");
      this.#post({ type: "mark", mark: "stale", sequence: this.#sequence });
      await this.#wait(backoff(failures++));
    }
  }

  #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  // A follower without messages has a stale page, even if the leader's stream works.
  #restartSilenceTimer(): void {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = setTimeout(() => {
      if (!this.#isLeading) this.#mark("stale");
    }, silence);
  }

  #receive(message: Message): void {
    switch (message.type) {
      case "hello":
        if (!this.#isLeading) return;
        this.#post({ type: "mark", mark: this.#state.mark, sequence: this.#sequence });
        if (this.#status !== undefined) this.#post({ type: "event", event: this.#status });
        return;
      case "mark":
        this.#restartSilenceTimer();
        // A new tab adopts the leader's position: it sent its queries after it started to
        // receive events.
        if (this.#sequence === 0) this.#sequence = message.sequence;
        this.#mark(message.mark);
        return;
      case "event":
        this.#restartSilenceTimer();
        this.#apply(message.event);
        this.#mark("live");
    }
  }

  #apply(event: LiveEvent): void {
    // A new leader may repeat events. Several events can have the sequence number of one
    // journal event.
    if (event.kind !== "reset" && event.kind !== "status" && event.sequence < this.#sequence) return;
    this.#sequence = event.kind === "reset" ? event.sequence : Math.max(event.sequence, this.#sequence);
    if (event.kind === "status") {
      this.#status = event;
      this.#set({ gateway: event.status });
    }
    if (event.kind === "heartbeat") return;
    this.#dispatch(this.#urgent, event);
    if (this.#state.paused) {
      this.#queued.push(event);
      this.#set({ queued: this.#queued.length });
    } else {
      this.#dispatch(this.#listeners, event);
    }
  }

  #dispatch(listeners: ReadonlySet<Listener>, event: LiveEvent): void {
    for (const listener of [...listeners]) listener(event);
  }

  #post(message: Message): void {
    if (!this.#isClosed()) this.#channel.postMessage(message);
  }

  #mark(mark: Mark): void {
    if (mark !== this.#state.mark) this.#set({ mark, since: Date.now() });
  }

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    for (const changed of [...this.#watchers]) changed();
  }

  // Waits for a time, or until the network returns or the tab becomes visible.
  #wait(millis: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        removeEventListener("online", done);
        document.removeEventListener("visibilitychange", onVisibilityChange);
        this.#closing.signal.removeEventListener("abort", done);
        resolve();
      };
      const onVisibilityChange = () => {
        if (document.visibilityState === "visible") done();
      };
      const timer = setTimeout(done, millis);
      addEventListener("online", done);
      document.addEventListener("visibilitychange", onVisibilityChange);
      this.#closing.signal.addEventListener("abort", done);
    });
  }
}

/** Returns the delay of the next attempt in milliseconds: exponential up to 10 s, with jitter so that clients do not reconnect together. */
export function backoff(failures: number): number {
  const maxDelay = Math.min(10_000, 200 * 2 ** failures);
  return maxDelay / 2 + (Math.random() * maxDelay) / 2;
}
