import { useSyncExternalStore } from "react";

// One timer for every time on the page. What the gateway's clock says counts: skew is how
// far it is ahead of this machine's.
let now = Date.now();
let skew = 0;
let timer: ReturnType<typeof setInterval> | undefined;
const watchers = new Set<() => void>();

function watch(changed: () => void): () => void {
  watchers.add(changed);
  timer ??= setInterval(() => {
    now = Date.now() + skew;
    for (const each of [...watchers]) each();
  }, 1000);
  return () => {
    watchers.delete(changed);
    if (watchers.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The gateway's time, which moves once a second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

/** Says what the gateway's clock was just now, in milliseconds. */
export function setGatewayTime(at: number): void {
  skew = at - Date.now();
  now = at;
}

/** The gateway's time at this moment. */
export function gatewayNow(): number {
  return Date.now() + skew;
}
