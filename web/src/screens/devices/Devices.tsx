import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useWhoami } from "../../api/whoami";
import type { Device } from "../../gen/palyra/v1/access_pb";
import { IdentityService } from "../../gen/palyra/v1/access_pb";
import { DeviceService } from "../../gen/palyra/v1/devices_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Copy, Id } from "../../ui/Copy";
import { TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The devices of members, with their certificates and actions. */
export default function Devices() {
  const id = useParam("id");
  return id === "" ? <DevicesPage /> : <DevicePage key={id} id={id} />;
}

function DevicesPage() {
  const me = useWhoami();
  const query = useQuery({ queryKey: ["devices"], queryFn: ({ signal }) => client(IdentityService).listDevices({}, { signal }) });
  return (
    <Screen title="Devices" command={palyra("devices", "list")} fill actions={<ScreenLink to="/pairing">Pair a device</ScreenLink>}>
      {query.isPending ? (
        <Loading what="devices" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.devices.length === 0 ? (
        <EmptyState title="No devices are visible to you" />
      ) : (
        <Table
          label="Devices"
          rows={query.data.devices}
          rowKey={(device) => device.deviceId}
          href={(device) => `/devices/${device.deviceId}`}
          isDimmed={(device) => device.revokedAt !== undefined}
          columns={[
            { id: "name", label: "Device", className: "grow", cell: (device) => <Untrusted text={device.name || device.deviceId} line={80} /> },
            { id: "of", label: "Member", className: "w-44 max-sm:hidden", cell: (device) => <Untrusted text={device.principal} line={40} /> },
            { id: "added", label: "Added", className: "w-28 max-md:hidden", cell: (device) => <Time at={device.createdAt} /> },
            { id: "state", label: "State", className: "w-32", cell: (device) => <State device={device} mine={device.deviceId === me?.deviceId} /> },
          ]}
        />
      )}
    </Screen>
  );
}

function State({ device, mine }: { device: Device; mine: boolean }) {
  if (device.revokedAt !== undefined) return <Badge tone="bad">revoked</Badge>;
  if (device.loginEndsAt !== undefined) return <Badge tone="accent">login session</Badge>;
  return <Badge tone="good">{mine ? "this device" : "active"}</Badge>;
}

function DevicePage({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["devices", id], queryFn: ({ signal }) => client(DeviceService).getDevice({ deviceId: id }, { signal }) });
  const data = query.data;
  const device = data?.device;
  return (
    <Screen
      title={device === undefined ? "Device" : device.name || "Device"}
      command={palyra("devices", "show", id)}
      actions={
        <>
          <ScreenLink to="/devices">All devices</ScreenLink>
          {device !== undefined && device.revokedAt === undefined && <Rename device={device} />}
          {device !== undefined && device.revokedAt === undefined && (
            <ActionButton
              label="Revoke"
              title="Revoke this device?"
              confirmLabel="Revoke the device"
              announcement="The device is revoked."
              variant="bad"
              needs="access.write"
              reason="Reason (kept in the journal)"
              keys={["devices"]}
              run={(reason) => client(IdentityService).revokeDevice({ deviceId: id, reason })}
            >
              <p>
                The gateway refuses the device, and its streams, grants and logins end. Review its earlier approvals below. This cannot be undone.
              </p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the device" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : data === undefined || device === undefined ? (
        <EmptyState title="Device not found" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["Id", <Id id={device.deviceId} keep={26} />],
              ["Member", <Untrusted text={device.principal} />],
              ["Added", <Time at={device.createdAt} full />],
              ["Added by", data.addedBy !== "" && <Untrusted text={data.addedBy} />],
              ["Last used", <Time at={data.lastUsedAt} full />],
              ["Certificate expires", <Time at={device.certificateExpiresAt} full />],
              ["Key", <Id id={device.keySha256} />],
              ["Presence key", data.presenceKey !== undefined && data.presenceKey.sha256 !== "" && <Id id={data.presenceKey.sha256} />],
              ["Revoked", device.revokedAt !== undefined && <Time at={device.revokedAt} full />],
            ]}
          />
          <DeviceActions id={id} />
        </>
      )}
    </Screen>
  );
}

function Rename({ device }: { device: Device }) {
  const [name, setName] = useState(device.name);
  const good = /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/.test(name);
  return (
    <ActionButton label="Rename" title="Rename this device" confirmLabel="Rename the device" announcement="The device is renamed." needs="access.write" keys={["devices"]} run={() => client(IdentityService).renameDevice({ deviceId: device.deviceId, name })}>
      <TextField label="Name" hint={good ? undefined : "Letters, digits, spaces, dots, hyphens and underscores; at most 63."} value={name} onChange={(event) => setName(event.target.value)} />
    </ActionButton>
  );
}

function DeviceActions({ id }: { id: string }) {
  const query = useInfiniteQuery({
    queryKey: ["devices", id, "acts"],
    queryFn: ({ pageParam, signal }) => client(DeviceService).listDeviceActs({ deviceId: id, pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const acts = query.data?.pages.flatMap((page) => page.acts) ?? [];
  return (
    <Section title="Actions of this device">
      {query.isPending ? (
        <Loading what="the actions" />
      ) : query.isError ? (
        <ErrorState error={query.error} />
      ) : acts.length === 0 ? (
        <EmptyState title="No actions yet" />
      ) : (
        <div className="flex h-96 flex-col">
          <Table
            label="Actions of the device"
            rows={acts}
            rowKey={(act) => String(act.seq)}
            columns={[
              { id: "what", label: "Action", className: "grow", cell: (act) => <Untrusted text={act.summary} line={200} className="block truncate" /> },
              { id: "code", label: "Event", className: "w-24 max-sm:hidden", cell: (act) => <code className="font-mono text-sm">{act.code}</code> },
              { id: "undo", label: "Undo", className: "w-36", cell: (act) => act.undo !== "" && <Copy text={act.undo} label="Copy the command" name={`Copy the command ${act.undo}`} /> },
              { id: "at", label: "When", className: "w-28 text-right", cell: (act) => <Time at={act.at} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.hasNextPage ? "Scroll for more." : "End of the list."}
          />
        </div>
      )}
    </Section>
  );
}
