import { createContext, useContext, useEffect, useEffectEvent, useSyncExternalStore } from "react";
import type { Connection, LiveState } from "./connection";
import type { LiveEvent } from "./events";

export const LiveContext = createContext<Connection | null>(null);

const none: LiveState = { mark: "connecting", since: 0, paused: false, queued: 0, gateway: undefined };
const watchNothing = () => () => undefined;

export function useLive(): Connection | null {
  return useContext(LiveContext);
}

export function useLiveState(): LiveState {
  const live = useLive();
  return useSyncExternalStore(live?.watch ?? watchNothing, live?.state ?? (() => none));
}

/** Calls the listener for each event of the gateway; with urgent also while the page is paused. */
export function useLiveEvents(listener: (event: LiveEvent) => void, urgent = false): void {
  const live = useLive();
  const onEvent = useEffectEvent(listener);
  useEffect(() => {
    if (live === null) return;
    const handle = (event: LiveEvent) => onEvent(event);
    return urgent ? live.subscribeUrgent(handle) : live.subscribe(handle);
  }, [live, urgent]);
}
