import { useLiveState } from "../live/context";
import { Notice } from "../ui/State";

/** A warning that the gateway does not respond and that the page may be out of date. */
export function UnresponsiveNotice() {
  const { mark } = useLiveState();
  if (mark !== "stale") return null;
  return (
    <div role="alert" className="px-3 pt-2">
      <Notice tone="bad">
        The gateway does not respond. This page may be out of date and reconnects automatically. On the gateway's machine, <code>palyra status</code> shows whether palyrad is running.
      </Notice>
    </div>
  );
}
