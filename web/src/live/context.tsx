import { createContext, useContext, useEffect, useEffectEvent, useSyncExternalStore } from "react";
import type { Connection, LiveState } from "./connection";
import type { LiveEvent } from "./events";

export const LiveContext = createContext<Connection | null>(null);

const none: LiveState = { mark: "connecting", since: 0, paused: false, held: 0, gateway: undefined };
const never = () => () => undefined;

export function useLive(): Connection | null {
  return useContext(LiveContext);
}

export function useLiveState(): LiveState {
  const live = useLive();
  return useSyncExternalStore(live?.watch ?? never, live?.state ?? (() => none));
}

/** Calls listener for each event of the gateway; urgent means also while the page is paused. */
export function useLiveEvents(listener: (event: LiveEvent) => void, urgent = false): void {
  const live = useLive();
  const heard = useEffectEvent(listener);
  useEffect(() => {
    if (live === null) return;
    const hear = (event: LiveEvent) => heard(event);
    return urgent ? live.subscribeUrgent(hear) : live.subscribe(hear);
  }, [live, urgent]);
}
