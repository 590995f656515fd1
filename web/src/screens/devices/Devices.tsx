import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useWhoami } from "../../api/whoami";
import type { Device } from "../../gen/palyra/v1/access_pb";
import { IdentityService } from "../../gen/palyra/v1/access_pb";
import { DeviceService } from "../../gen/palyra/v1/devices_pb";
import { hasScreen } from "../../routes";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Copy, Id } from "../../ui/Copy";
import { TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The devices of members: keys that come in by certificate, and what was done with each. */
export default function Devices() {
  const id = useParam("id");
  return id === "" ? <All /> : <One key={id} id={id} />;
}

function All() {
  const me = useWhoami();
  const query = useQuery({ queryKey: ["devices"], queryFn: ({ signal }) => client(IdentityService).listDevices({}, { signal }) });
  return (
    <Screen title="Devices" command={palyra("devices", "list")} fill actions={hasScreen("/pairing") && <ScreenLink to="/pairing">Pair a device</ScreenLink>}>
      {query.isPending ? (
        <Loading what="devices" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.devices.length === 0 ? (
        <EmptyState title="There is no device that you may see" />
      ) : (
        <Table
          label="Devices"
          rows={query.data.devices}
          rowKey={(device) => device.deviceId}
          href={(device) => `/devices/${device.deviceId}`}
          dim={(device) => device.revokedAt !== undefined}
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
  return <Badge tone="good">{mine ? "yours, here" : "live"}</Badge>;
}

function One({ id }: { id: string }) {
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
            <Act
              label="Revoke"
              title="Revoke this device?"
              does="Revoke the device"
              said="The device is revoked."
              look="bad"
              needs="access.write"
              reason="Reason (kept in the journal)"
              keys={["devices"]}
              run={(reason) => client(IdentityService).revokeDevice({ deviceId: id, reason })}
            >
              <p>
                It is refused from now on, its streams end, and so do grants and logins that came from it. What was approved with it is listed below, to be looked at. This cannot be undone.
              </p>
            </Act>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the device" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : data === undefined || device === undefined ? (
        <EmptyState title="There is no such device" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["Id", <Id id={device.deviceId} keep={26} />],
              ["Member", <Untrusted text={device.principal} />],
              ["Added", <Time at={device.createdAt} full />],
              ["Added by", data.addedBy !== "" && <Untrusted text={data.addedBy} />],
              ["Last used", <Time at={data.lastUsedAt} full />],
              ["Certificate ends", <Time at={device.certificateExpiresAt} full />],
              ["Key", <Id id={device.keySha256} />],
              ["Presence key", data.presenceKey !== undefined && data.presenceKey.sha256 !== "" && <Id id={data.presenceKey.sha256} />],
              ["Revoked", device.revokedAt !== undefined && <Time at={device.revokedAt} full />],
            ]}
          />
          <Acts id={id} />
        </>
      )}
    </Screen>
  );
}

function Rename({ device }: { device: Device }) {
  const [name, setName] = useState(device.name);
  const good = /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/.test(name);
  return (
    <Act label="Rename" title="Rename this device" does="Give it this name" said="The device has another name." needs="access.write" keys={["devices"]} run={() => client(IdentityService).renameDevice({ deviceId: device.deviceId, name })}>
      <TextField label="Name" hint={good ? undefined : "Letters, digits, spaces, dots, hyphens and underscores; at most 63."} value={name} onChange={(event) => setName(event.target.value)} />
    </Act>
  );
}

function Acts({ id }: { id: string }) {
  const query = useInfiniteQuery({
    queryKey: ["devices", id, "acts"],
    queryFn: ({ pageParam, signal }) => client(DeviceService).listDeviceActs({ deviceId: id, pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const acts = query.data?.pages.flatMap((page) => page.acts) ?? [];
  return (
    <Section title="What was approved, started and changed with it">
      {query.isPending ? (
        <Loading what="its acts" />
      ) : query.isError ? (
        <ErrorState error={query.error} />
      ) : acts.length === 0 ? (
        <EmptyState title="Nothing yet" />
      ) : (
        <div className="flex h-96 flex-col">
          <Table
            label="Acts of the device"
            rows={acts}
            rowKey={(act) => String(act.seq)}
            columns={[
              { id: "what", label: "What", className: "grow", cell: (act) => <Untrusted text={act.summary} line={200} className="block truncate" /> },
              { id: "code", label: "Event", className: "w-24 max-sm:hidden", cell: (act) => <code className="font-mono text-sm">{act.code}</code> },
              { id: "undo", label: "To take it back", className: "w-36", cell: (act) => act.undo !== "" && <Copy text={act.undo} label="Copy the command" name={`Copy the command ${act.undo}`} /> },
              { id: "at", label: "When", className: "w-28 text-right", cell: (act) => <Time at={act.at} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.hasNextPage ? "More follow." : "No more."}
          />
        </div>
      )}
    </Section>
  );
}
