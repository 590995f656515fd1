import { useLive, useLiveState } from "../live/context";
import { formatDuration } from "../text/time";
import { Badge } from "../ui/Badge";
import { Button } from "../ui/Button";
import { useNow } from "../ui/clock";
import { useKeys } from "./keys";

/** The state of the live connection, and a button that pauses updates. */
export function LiveMark() {
  const live = useLive();
  const state = useLiveState();
  const toggle = () => (state.paused ? live?.resume() : live?.pause());
  useKeys(live === null ? [] : [{ key: "p", description: "Pause or resume updates", run: () => toggle() }]);
  if (live === null) return null;
  return (
    <div className="flex items-center gap-2">
      <span role="status" aria-label="Connection">
        {state.paused ? (
          <Badge tone="warn">❚❚ Paused{state.queued > 0 ? ` · ${state.queued} held` : ""}</Badge>
        ) : state.mark === "live" ? (
          <Badge tone="good">● Live</Badge>
        ) : state.mark === "connecting" ? (
          <Badge>○ Connecting</Badge>
        ) : (
          <Stale since={state.since} />
        )}
      </span>
      <Button size="small" onClick={toggle} aria-pressed={state.paused}>
        {state.paused ? "Resume" : "Pause"}
      </Button>
    </div>
  );
}

function Stale({ since }: { since: number }) {
  const now = useNow();
  return <Badge tone="bad">▲ Stale for {formatDuration(now - since)}</Badge>;
}
