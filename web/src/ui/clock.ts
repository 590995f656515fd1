import { useSyncExternalStore } from "react";

// One timer for all times on the page. Times follow the gateway's clock: skew is its offset
// from the clock of this machine.
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

/** Returns the gateway's time, updated once a second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

/** Sets the current time of the gateway's clock, in milliseconds. */
export function setGatewayTime(at: number): void {
  skew = at - Date.now();
  now = at;
}

/** Returns the gateway's current time. */
export function gatewayNow(): number {
  return Date.now() + skew;
}
