import { useLive, useLiveState } from "../live/context";
import { length } from "../text/time";
import { Badge } from "../ui/Badge";
import { Button } from "../ui/Button";
import { useNow } from "../ui/clock";
import { useKeys } from "./keys";

/** Whether the page is true at this moment, and a button that holds it still. */
export function LiveMark() {
  const live = useLive();
  const state = useLiveState();
  const turn = () => (state.paused ? live?.resume() : live?.pause());
  useKeys(live === null ? [] : [{ key: "p", says: "Hold the page still, or let it go on", run: () => turn() }]);
  if (live === null) return null;
  return (
    <div className="flex items-center gap-2">
      <span role="status" aria-label="Connection">
        {state.paused ? (
          <Badge tone="warn">❚❚ Paused{state.held > 0 ? ` · ${state.held} held` : ""}</Badge>
        ) : state.mark === "live" ? (
          <Badge tone="good">● Live</Badge>
        ) : state.mark === "connecting" ? (
          <Badge>○ Connecting</Badge>
        ) : (
          <Stale since={state.since} />
        )}
      </span>
      <Button size="small" onClick={turn} aria-pressed={state.paused}>
        {state.paused ? "Go on" : "Pause"}
      </Button>
    </div>
  );
}

function Stale({ since }: { since: number }) {
  const now = useNow();
  return <Badge tone="bad">▲ Stale for {length(now - since)}</Badge>;
}
