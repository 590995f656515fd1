import { useLiveState } from "../live/context";
import { Notice } from "../ui/State";

/** Says that the gateway does not answer: what the page shows may be out of date. */
export function Silent() {
  const { mark } = useLiveState();
  if (mark !== "stale") return null;
  return (
    <div role="alert" className="px-3 pt-2">
      <Notice tone="bad">
        The gateway does not answer. This page may be out of date; it tries again by itself. On the gateway's machine, <code>palyra status</code> shows whether palyrad runs.
      </Notice>
    </div>
  );
}
