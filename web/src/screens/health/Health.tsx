import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { client } from "../../api/transport";
import type { GetStatusResponse } from "../../gen/palyra/v1/status_pb";
import { StatusService } from "../../gen/palyra/v1/status_pb";
import { Screen, Section } from "../../shell/Screen";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { KeyValue } from "../../ui/KeyValue";
import { ErrorState, Loading, Notice, PointList } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { Checks } from "./Checks";

/** The health of the gateway: status, problems, checks and the freeze. */
export default function Health() {
  const query = useQuery({ queryKey: ["status"], queryFn: ({ signal }) => client(StatusService).getStatus({}, { signal }) });
  const status = query.data;
  return (
    <Screen title="Health" command={palyra("status")} actions={status !== undefined && <Freeze frozen={status.freeze?.frozen === true} />}>
      {query.isPending ? (
        <Loading what="the status" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <StatusDetail status={query.data} />
      )}
    </Screen>
  );
}

function StatusDetail({ status }: { status: GetStatusResponse }) {
  return (
    <>
      {status.freeze?.frozen === true && (
        <Notice tone="bad">
          Frozen by <Untrusted text={status.freeze.by} />, <Time at={status.freeze.at} />: <Untrusted text={status.freeze.reason || "no reason given"} />. No tool runs until the gateway is thawed.
        </Notice>
      )}
      <PointList tone="bad" title="Problems" texts={status.problems} />
      <PointList tone="warn" title="Degraded" texts={status.degraded} />
      <PointList tone="plain" title="Notices" texts={status.notices} />
      <Checks />
      <Section title="The gateway">
        <KeyValue
          rows={[
            ["State", <Badge tone={status.ready ? "good" : "bad"}>{status.ready ? "ready" : "not ready"}</Badge>],
            ["Version", status.version],
            ["Id", <Id id={status.gatewayId} keep={26} />],
            ["Started", <Time at={status.startedAt} full />],
            ["Pending approvals", String(status.pendingApprovals)],
            ["Active grants", String(status.liveGrants)],
            ["Active calls", String(status.callsInFlight)],
            ["Active runs", String(status.activeRuns)],
            ["Policy version", <Id id={status.policyVersion} />],
            ["Snapshot", <Id id={status.snapshotDigest} />],
            ["Journal", `${status.journalSize.toLocaleString()} events, checkpoint at ${status.lastCheckpointSize.toLocaleString()}`],
          ]}
        />
      </Section>
      {status.sandbox !== undefined && (
        <Section title="Sandbox">
          <KeyValue
            rows={[
              ["State", <Badge tone={status.sandbox.available ? "good" : "bad"}>{status.sandbox.available ? "available" : "unavailable"}</Badge>],
              ["Backend", status.sandbox.backend],
              ["Tier", status.sandbox.tier],
              ["Limits enforced by", status.sandbox.limitsBy],
              ["Layers", status.sandbox.layers.join(", ")],
              ["Missing", status.sandbox.missingLayers.join(", ")],
              ["Problem", status.sandbox.problem],
              ["Remedy", status.sandbox.remedy],
            ]}
          />
        </Section>
      )}
      {status.vault !== undefined && (
        <Section title="Vault">
          <KeyValue
            rows={[
              ["State", <Badge tone={status.vault.locked ? "bad" : "good"}>{status.vault.locked ? "locked" : "open"}</Badge>],
              ["Backend", status.vault.backend],
              ["Key", status.vault.keyId],
              ["Keys", status.vault.summary !== status.vault.backend && status.vault.summary],
              ["Remedy", status.vault.remedy],
            ]}
          />
        </Section>
      )}
      {status.models.length > 0 && (
        <Section title="Models">
          <AvailabilityList rows={status.models.map((model) => ({ key: model.name, good: model.available, name: `${model.name}: ${model.provider} ${model.model}`, problem: [model.problem, model.remedy].filter(Boolean).join(" ") }))} />
        </Section>
      )}
      {status.workspaces.length > 0 && (
        <Section title="Workspaces">
          <ul className="flex flex-col gap-1">
            {status.workspaces.map((workspace) => (
              <li key={workspace.name} className="flex flex-wrap gap-2">
                <Untrusted text={workspace.name} className="font-semibold" />
                <Untrusted text={workspace.path} className="font-mono" />
                <Badge>{workspace.readOnly ? "read only" : workspace.mode}</Badge>
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function AvailabilityList({ rows }: { rows: readonly { key: string; good: boolean; name: string; problem: ReactNode }[] }) {
  return (
    <ul className="flex flex-col gap-1">
      {rows.map((row) => (
        <li key={row.key} className="flex flex-wrap gap-2">
          <Badge tone={row.good ? "good" : "bad"}>{row.good ? "available" : "unavailable"}</Badge>
          <Untrusted text={row.name} />
          {row.problem !== "" && <span className="text-quiet">{row.problem}</span>}
        </li>
      ))}
    </ul>
  );
}

function Freeze({ frozen }: { frozen: boolean }) {
  if (frozen) {
    return (
      <ActionButton label="Thaw" title="Thaw the gateway?" confirmLabel="Thaw the gateway" announcement="The gateway is thawed." needs="gateway.thaw" keys={["status", "whoami"]} run={() => client(StatusService).thaw({})}>
        <p>Calls are decided and run again. If two approvers are required, this asks the second one.</p>
      </ActionButton>
    );
  }
  return (
    <ActionButton
      label="Freeze"
      title="Freeze the gateway?"
      confirmLabel="Freeze the gateway"
      announcement="The gateway is frozen."
      variant="bad"
      needs="gateway.freeze"
      reason="Reason (kept in the journal)"
      keys={["status", "whoami"]}
      run={(reason) => client(StatusService).freeze({ reason })}
    >
      <p>No call is dispatched, running sandboxes are killed, and grants allow nothing until the gateway is thawed. The freeze survives a restart.</p>
    </ActionButton>
  );
}
