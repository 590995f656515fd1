// What measures within the page: it sees when something was painted, not when it was sent.

declare global {
  interface Window {
    stopwatch: Stopwatch;
  }
}

export interface Filtered {
  line: string;
  /** From the key to the paint of the rows, in milliseconds. */
  took: number;
  /** How many rows are laid out. */
  rows: number;
}

interface Stopwatch {
  /** Begins to look at frames. */
  frames: () => void;
  /** The longest frame since then, in milliseconds. */
  longest: () => number;
  /** When a row with the text was painted, in milliseconds since 1970. */
  shown: (text: string) => Promise<number>;
  /** From the next click to the paint of the text, in milliseconds. */
  echoed: (text: string) => Promise<number>;
  /** From the next Enter until what the filter chooses is painted. */
  filtered: (line: string) => Promise<Omit<Filtered, "line">>;
}

/** Puts window.stopwatch into a page, before its own scripts. It is sent as text, and uses nothing of this file. */
export function startStopwatch(): void {
  let last = 0;
  let longest = 0;
  const frame = (at: number) => {
    if (last > 0) longest = Math.max(longest, at - last);
    last = at;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);

  /** After the frame that shows what is in the document now. */
  const painted = () =>
    new Promise<void>((resolve) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => resolve();
        port2.postMessage(undefined);
      });
    });
  /** Waits until the document has something. */
  const until = <T>(find: () => T | undefined) =>
    new Promise<T>((resolve) => {
      const look = () => {
        const found = find();
        if (found === undefined) return;
        observer.disconnect();
        resolve(found);
      };
      const observer = new MutationObserver(look);
      observer.observe(document, { childList: true, subtree: true, characterData: true });
      look();
    });
  const next = (kind: "click" | "keydown", wanted: (event: Event) => boolean) =>
    new Promise<number>((resolve) => {
      const heard = (event: Event) => {
        if (!wanted(event)) return;
        removeEventListener(kind, heard, true);
        resolve(event.timeStamp);
      };
      addEventListener(kind, heard, true);
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
      // Another filter is another list, in an element of its own.
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
