// Measurements within the page: the time when something is painted, not when it is sent.

declare global {
  interface Window {
    stopwatch: Stopwatch;
  }
}

export interface Filtered {
  line: string;
  /** From the key to the paint of the rows, in milliseconds. */
  took: number;
  /** The number of rendered rows. */
  rows: number;
}

interface Stopwatch {
  /** Starts the measurement of frames. */
  frames: () => void;
  /** The longest frame since the start, in milliseconds. */
  longest: () => number;
  /** The time when a row with the text was painted, in milliseconds since 1970. */
  shown: (text: string) => Promise<number>;
  /** The time from the next click to the paint of the text, in milliseconds. */
  echoed: (text: string) => Promise<number>;
  /** The time from the next Enter to the paint of the filtered rows. */
  filtered: (line: string) => Promise<Omit<Filtered, "line">>;
}

/** Defines window.stopwatch in a page before its scripts run. The function is sent as text, so it MUST NOT use other definitions of this file. */
export function startStopwatch(): void {
  let last = 0;
  let longest = 0;
  const frame = (at: number) => {
    if (last > 0) longest = Math.max(longest, at - last);
    last = at;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);

  /** Resolves after the frame with the current document. */
  const painted = () =>
    new Promise<void>((resolve) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => resolve();
        port2.postMessage(undefined);
      });
    });
  /** Waits until find returns a value. */
  const until = <T>(find: () => T | undefined) =>
    new Promise<T>((resolve) => {
      const check = () => {
        const result = find();
        if (result === undefined) return;
        observer.disconnect();
        resolve(result);
      };
      const observer = new MutationObserver(check);
      observer.observe(document, { childList: true, subtree: true, characterData: true });
      check();
    });
  const next = (kind: "click" | "keydown", accepts: (event: Event) => boolean) =>
    new Promise<number>((resolve) => {
      const listener = (event: Event) => {
        if (!accepts(event)) return;
        removeEventListener(kind, listener, true);
        resolve(event.timeStamp);
      };
      addEventListener(kind, listener, true);
    });

  window.stopwatch = {
    frames: () => {
      longest = 0;
    },
    longest: () => longest,
    shown: async (text) => {
      await until(() => [...document.querySelectorAll("[data-row]")].find((each) => each.textContent.includes(text)));
      await painted();
      return Date.now();
    },
    echoed: async (text) => {
      const clicked = await next("click", () => true);
      await until(() => ([...document.querySelectorAll("[role=status]")].some((each) => each.textContent.includes(text)) ? true : undefined));
      await painted();
      return performance.now() - clicked;
    },
    filtered: async (line) => {
      // Each filter has its own list element.
      const list = () => document.querySelector("[data-scroller], [data-empty]");
      const before = list();
      const pressed = await next("keydown", (event) => (event as KeyboardEvent).key === "Enter");
      await until(() => {
        const now = list();
        if (now === null || now === before || (new URLSearchParams(location.search).get("q") ?? "") !== line) return undefined;
        return now.querySelector("[data-row]") !== null || now.matches("[data-empty]") ? true : undefined;
      });
      await painted();
      return { took: performance.now() - pressed, rows: document.querySelectorAll("[data-row]").length };
    },
  };
}
