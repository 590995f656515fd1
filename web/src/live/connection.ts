// One stream of the gateway for all tabs of a browser: the tab that holds a Web Lock
// reads it and tells the others over a BroadcastChannel. When that tab goes, another gets
// the lock and resumes after the last event that it saw itself, so that it misses nothing.
import type { LiveEvent } from "./events";

/** Where the events come from. */
export interface Source {
  /** Streams the events after a sequence number, 0 for from now on, until the signal. */
  open(after: number, signal: AbortSignal): AsyncIterable<LiveEvent>;
  /** Whether the stream ended because the session did: it is not tried again. */
  over(thrown: unknown): boolean;
}

/** How well this tab knows what is going on. */
export type Mark = "connecting" | "live" | "stale";

export interface LiveState {
  mark: Mark;
  /** When the mark changed last, in milliseconds. */
  since: number;
  /** Whether this tab holds events back so that nothing on screen moves. */
  paused: boolean;
  /** How many events are held back. */
  held: number;
  /** How the gateway is, once it has said so. */
  gateway: { frozen: boolean; pending: number } | undefined;
}

type Message = { type: "event"; event: LiveEvent } | { type: "mark"; mark: Mark; sequence: number } | { type: "hello" };

type Listener = (event: LiveEvent) => void;

/** The gateway says something at least this often. */
export const heartbeat = 2_000;
/** A person learns within five seconds that the gateway is silent; one late heartbeat is none. */
const silence = 2.25 * heartbeat;

export class Connection {
  #state: LiveState = { mark: "connecting", since: Date.now(), paused: false, held: 0, gateway: undefined };
  #sequence = 0;
  #status: LiveEvent | undefined;
  #leading = false;
  #held: LiveEvent[] = [];
  readonly #watchers = new Set<() => void>();
  readonly #listeners = new Set<Listener>();
  readonly #urgent = new Set<Listener>();
  readonly #closing = new AbortController();
  readonly #channel: BroadcastChannel;
  #silent: ReturnType<typeof setTimeout> | undefined;
  readonly #source: Source;
  readonly #over: () => void;

  /** Names are per member: tabs of another member's session hear nothing. */
  constructor(source: Source, name: string, over: () => void) {
    this.#source = source;
    this.#over = over;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = (message: MessageEvent<Message>) => this.#hear(message.data);
    this.#post({ type: "hello" });
    this.#listen();
    navigator.locks
      .request(name, { signal: this.#closing.signal }, () => this.#lead())
      .catch(() => {
        // Closed before it was this tab's turn.
      });
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#silent);
    this.#channel.close();
  }

  readonly state = (): LiveState => this.#state;

  readonly watch = (changed: () => void): (() => void) => {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  };

  /** Calls the listener for each event; while this tab is paused, later. */
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
    const held = this.#held;
    this.#held = [];
    this.#set({ paused: false, held: 0 });
    for (const event of held) this.#tell(this.#listeners, event);
  }

  async #lead(): Promise<void> {
    this.#leading = true;
    let failures = 0;
    while (!this.#closed()) {
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      this.#closing.signal.addEventListener("abort", stop);
      let watchdog = setTimeout(stop, silence);
      // What was asked for before the stream began may be out of date already.
      let fresh = this.#sequence === 0;
      try {
        for await (const event of this.#source.open(this.#sequence, attempt.signal)) {
          failures = 0;
          if (fresh) this.#tell(this.#listeners, { ...event, kind: "reset" });
          fresh = false;
          clearTimeout(watchdog);
          watchdog = setTimeout(stop, silence);
          this.#take(event);
          this.#mark("live");
          this.#post({ type: "event", event });
        }
      } catch (thrown) {
        if (this.#source.over(thrown)) {
          this.#over();
          return;
        }
      } finally {
        clearTimeout(watchdog);
        this.#closing.signal.removeEventListener("abort", stop);
      }
      if (this.#closed()) return;
      this.#mark("stale");
      this.#post({ type: "mark", mark: "stale", sequence: this.#sequence });
      await this.#wait(backoff(failures++));
    }
  }

  #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  // A follower that hears nothing has a stale page, whatever the leader's excuse.
  #listen(): void {
    clearTimeout(this.#silent);
    this.#silent = setTimeout(() => {
      if (!this.#leading) this.#mark("stale");
    }, silence);
  }

  #hear(message: Message): void {
    switch (message.type) {
      case "hello":
        if (!this.#leading) return;
        this.#post({ type: "mark", mark: this.#state.mark, sequence: this.#sequence });
        if (this.#status !== undefined) this.#post({ type: "event", event: this.#status });
        return;
      case "mark":
        this.#listen();
        // A tab that is new takes up where the leader is: what it shows, it asked for
        // after it had begun to listen.
        if (this.#sequence === 0) this.#sequence = message.sequence;
        this.#mark(message.mark);
        return;
      case "event":
        this.#listen();
        this.#take(message.event);
        this.#mark("live");
    }
  }

  #take(event: LiveEvent): void {
    // Another leader may say again what this tab has heard; several events may come of one
    // of the journal.
    if (event.kind !== "reset" && event.kind !== "status" && event.sequence < this.#sequence) return;
    this.#sequence = event.kind === "reset" ? event.sequence : Math.max(event.sequence, this.#sequence);
    if (event.kind === "status") {
      this.#status = event;
      this.#set({ gateway: event.status });
    }
    if (event.kind === "heartbeat") return;
    this.#tell(this.#urgent, event);
    if (this.#state.paused) {
      this.#held.push(event);
      this.#set({ held: this.#held.length });
    } else {
      this.#tell(this.#listeners, event);
    }
  }

  #tell(listeners: ReadonlySet<Listener>, event: LiveEvent): void {
    for (const listener of [...listeners]) listener(event);
  }

  #post(message: Message): void {
    if (!this.#closed()) this.#channel.postMessage(message);
  }

  #mark(mark: Mark): void {
    if (mark !== this.#state.mark) this.#set({ mark, since: Date.now() });
  }

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    for (const changed of [...this.#watchers]) changed();
  }

  // Waits, but not once the network is back or the tab is looked at again.
  #wait(millis: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        removeEventListener("online", done);
        document.removeEventListener("visibilitychange", seen);
        this.#closing.signal.removeEventListener("abort", done);
        resolve();
      };
      const seen = () => {
        if (document.visibilityState === "visible") done();
      };
      const timer = setTimeout(done, millis);
      addEventListener("online", done);
      document.addEventListener("visibilitychange", seen);
      this.#closing.signal.addEventListener("abort", done);
    });
  }
}

/** Milliseconds until the next try: at once, then up to 10 s, spread so that tabs of many people do not come together. */
export function backoff(failures: number): number {
  const most = Math.min(10_000, 200 * 2 ** failures);
  return most / 2 + (Math.random() * most) / 2;
}
