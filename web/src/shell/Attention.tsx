import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client } from "../api/transport";
import { useCan } from "../api/whoami";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import { ApprovalState, ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import { useLiveEvents } from "../live/context";
import { toMillis } from "../text/time";
import { oneLine } from "../text/visible";
import { gatewayNow } from "../ui/clock";
import { MenuItem } from "../ui/Menu";
import { useGo } from "./router";
import { setBadge } from "./title";

const setting = "palyra.notify";
const recent = 60_000;

function areNotificationsEnabled(): boolean {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(setting) === "on";
}

/** Displays the number of pending approvals in the tab's title, and sends a desktop notification for each new one. */
export function Attention() {
  const go = useGo();
  const pending = useQuery({
    queryKey: ["waiting"],
    queryFn: async ({ signal }) => {
      const { counts } = await client(ApprovalsService).listApprovals({ states: [ApprovalState.PENDING], pageSize: 1, withCounts: true }, { signal });
      return Number(counts?.total ?? 0n);
    },
    enabled: useCan("approval.read"),
  }).data;
  useEffect(() => setBadge(pending ?? 0), [pending]);
  useLiveEvents((event) => {
    if (event.kind !== "approval" || event.approval === undefined || !isNew(event.approval)) return;
    if (!document.hidden || !areNotificationsEnabled()) return;
    const { approvalId, prompt, severity, requestedBy } = event.approval;
    // Every tab receives the event; the tag merges their notifications into one.
    const notification = new Notification(`Palyra: ${severity} approval requested by ${oneLine(requestedBy, 60)}`, {
      body: oneLine(prompt?.lead ?? prompt?.summary ?? "", 160),
      tag: approvalId,
      icon: "/favicon.svg",
    });
    notification.onclick = () => {
      window.focus();
      go(`/approvals/${approvalId}`);
      notification.close();
    };
  }, true);
  return null;
}

// Whether an approval has no votes yet and is recent: a resumed stream also sends old approvals.
function isNew(approval: Approval): boolean {
  return approval.state === ApprovalState.PENDING && approval.votes.length === 0 && gatewayNow() - (toMillis(approval.createdAt) ?? 0) < recent;
}

/** Enables or disables desktop notifications; the browser asks the user for permission first. */
export function NotifyItem() {
  const [isEnabled, setIsEnabled] = useState(areNotificationsEnabled);
  if (!("Notification" in window)) return null;
  const toggle = async () => {
    const now = !isEnabled && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(setting, now ? "on" : "off");
    setIsEnabled(now);
  };
  return (
    <MenuItem onSelect={() => void toggle()}>
      <span aria-hidden className="w-4">
        {isEnabled ? "✓" : ""}
      </span>
      Desktop notifications for new approvals
      {isEnabled && <span className="sr-only">(on)</span>}
    </MenuItem>
  );
}
