import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client } from "../api/transport";
import { useCan } from "../api/whoami";
import type { Approval } from "../gen/palyra/v1/approvals_pb";
import { ApprovalState, ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import { useLiveEvents } from "../live/context";
import { ms } from "../text/time";
import { oneLine } from "../text/visible";
import { gatewayNow } from "../ui/clock";
import { MenuItem } from "../ui/Menu";
import { useGo } from "./router";
import { setBadge } from "./title";

const setting = "palyra.notify";
const recent = 60_000;

function wanted(): boolean {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(setting) === "on";
}

/** Calls a person who looks elsewhere: how many asks wait in the tab's title, and a notification of each new one. */
export function Attention() {
  const go = useGo();
  const waiting = useQuery({
    queryKey: ["waiting"],
    queryFn: async ({ signal }) => {
      const { counts } = await client(ApprovalsService).listApprovals({ states: [ApprovalState.PENDING], pageSize: 1, withCounts: true }, { signal });
      return Number(counts?.total ?? 0n);
    },
    enabled: useCan("approval.read"),
  }).data;
  useEffect(() => setBadge(waiting ?? 0), [waiting]);
  useLiveEvents((event) => {
    if (event.kind !== "approval" || event.approval === undefined || !isNew(event.approval)) return;
    if (!document.hidden || !wanted()) return;
    const { approvalId, prompt, severity, requestedBy } = event.approval;
    // All tabs hear of it; the tag makes one notification of theirs.
    const shown = new Notification(`Palyra: ${severity} ask of ${oneLine(requestedBy, 60)}`, {
      body: oneLine(prompt?.lead ?? prompt?.summary ?? "", 160),
      tag: approvalId,
      icon: "/favicon.svg",
    });
    shown.onclick = () => {
      window.focus();
      go(`/approvals/${approvalId}`);
      shown.close();
    };
  }, true);
  return null;
}

// An ask that nobody answered yet, and that the stream did not tell of because it resumed.
function isNew(approval: Approval): boolean {
  return approval.state === ApprovalState.PENDING && approval.votes.length === 0 && gatewayNow() - (ms(approval.createdAt) ?? 0) < recent;
}

/** Switches desktop notifications on and off; the browser asks the person first. */
export function NotifyItem() {
  const [on, setOn] = useState(wanted);
  if (!("Notification" in window)) return null;
  const turn = async () => {
    const now = !on && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(setting, now ? "on" : "off");
    setOn(now);
  };
  return (
    <MenuItem onSelect={() => void turn()}>
      <span aria-hidden className="w-4">
        {on ? "✓" : ""}
      </span>
      Notify this desktop of new asks
      {on && <span className="sr-only">(on)</span>}
    </MenuItem>
  );
}
