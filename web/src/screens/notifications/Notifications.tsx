import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Delivery, NotifyTarget } from "../../gen/palyra/v1/notify_pb";
import { NotifyService } from "../../gen/palyra/v1/notify_pb";
import { Screen } from "../../shell/Screen";
import { ScreenLink, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import type { Tone } from "../../ui/Badge";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Select, TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** Notification targets, their deliveries, and the mapping of Slack users to members. */
export default function Notifications() {
  const [tab, setTab] = useQueryParam("tab", "targets");
  return (
    <Screen title="Notifications" command={tab === "deliveries" ? palyra("notify", "deliveries") : tab === "chat" ? palyra("notify", "slack", "list") : palyra("notify", "list")}>
      <Tabs
        label="Notifications"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "targets", label: "Targets", content: <Targets /> },
          { id: "deliveries", label: "Deliveries", content: <Deliveries /> },
          { id: "chat", label: "Slack users", content: <ChatUsers /> },
        ]}
      />
    </Screen>
  );
}

function useTargets() {
  return useQuery({ queryKey: ["notify", "targets"], queryFn: ({ signal }) => client(NotifyService).listNotifyTargets({}, { signal }) });
}

function Targets() {
  const query = useTargets();
  if (query.isPending) return <Loading what="targets" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (query.data.targets.length === 0) return <EmptyState title="No notification targets">Configure [[notify]] in palyra.toml: a webhook, Slack or email (docs/reference/configuration.md).</EmptyState>;
  return (
    <ul className="flex flex-col gap-3">
      {query.data.targets.map((target) => (
        <li key={target.name} className="rounded-lg border border-line bg-panel p-3">
          <Target target={target} />
        </li>
      ))}
    </ul>
  );
}

function Target({ target }: { target: NotifyTarget }) {
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: () => client(NotifyService).testNotify({ target: target.name }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["notify"] }),
  });
  const delivery = test.data?.delivery;
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span className="flex flex-wrap items-center gap-2">
          <Untrusted text={target.name} className="font-semibold" />
          <Badge>{target.type}</Badge>
          {target.problem !== "" ? <Badge tone="bad">last attempt failed</Badge> : target.queued > 0 ? <Badge tone="warn">{target.queued} queued</Badge> : <Badge tone="good">no queue</Badge>}
        </span>
        <Button size="small" needs="notify.write" disabledReason={test.isPending ? "In progress." : undefined} onClick={() => test.mutate()}>
          Send a test
        </Button>
      </div>
      <KeyValue
        rows={[
          ["Address", <Untrusted text={target.where} className="font-mono" />],
          ["Events", <Untrusted text={target.events.join(", ") || "all"} />],
          ["Minimum severity", target.minSeverity],
          ["Call details", target.include],
          ["Connection", target.connection !== "" && <Untrusted text={target.connection} />],
          ["Problem", target.problem !== "" && <Untrusted text={target.problem} />],
        ]}
      />
      <div role="status">
        {test.isPending && <p className="text-quiet">Sending the test…</p>}
        {test.isError && <ErrorState error={test.error} />}
        {delivery !== undefined && !test.isPending && (
          <p className="flex flex-wrap items-center gap-2">
            <State delivery={delivery} />
            <Untrusted text={delivery.problem || "The test was delivered."} />
          </p>
        )}
      </div>
    </div>
  );
}

const tones: Record<string, Tone> = { delivered: "good", queued: "accent", failed: "bad", dropped: "bad", superseded: "plain" };

function State({ delivery }: { delivery: Delivery }) {
  return <Badge tone={tones[delivery.state] ?? "warn"}>{delivery.state}</Badge>;
}

const states = ["queued", "delivered", "failed", "superseded", "dropped"];

function Deliveries() {
  const [target, setTarget] = useQueryParam("target");
  const [state, setState] = useQueryParam("state");
  const targets = useTargets().data?.targets ?? [];
  const query = useInfiniteQuery({
    queryKey: ["notify", "deliveries", target, state],
    queryFn: ({ pageParam, signal }) => client(NotifyService).listDeliveries({ target, states: state === "" ? [] : [state], pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.deliveries) ?? [];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end gap-3">
        <div className="w-48">
          <Select label="Target" value={target} options={[{ value: "", label: "All" }, ...targets.map((each) => ({ value: each.name, label: each.name }))]} onChange={(event) => setTarget(event.target.value)} />
        </div>
        <div className="w-48">
          <Select label="State" value={state} options={[{ value: "", label: "All" }, ...states.map((each) => ({ value: each, label: each }))]} onChange={(event) => setState(event.target.value)} />
        </div>
        <Button onClick={() => void query.refetch()} disabledReason={query.isFetching ? "In progress." : undefined}>
          Refresh
        </Button>
      </div>
      {query.isPending ? (
        <Loading what="deliveries" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No matching deliveries" />
      ) : (
        <div className="flex h-[60vh] min-h-72 flex-col">
          <Table
            label="Deliveries"
            rows={rows}
            rowKey={(delivery) => delivery.deliveryId}
            rowHeight={60}
            columns={[
              { id: "what", label: "Notification", className: "grow", cell: (delivery) => <DeliveryCell delivery={delivery} /> },
              { id: "target", label: "Target", className: "w-32 max-sm:hidden", cell: (delivery) => <Untrusted text={delivery.target} line={30} /> },
              { id: "tries", label: "Attempts", className: "w-14 text-right max-md:hidden", cell: (delivery) => delivery.attempts },
              { id: "at", label: "When", className: "w-24 max-sm:hidden", cell: (delivery) => <Time at={delivery.endedAt ?? delivery.queuedAt} /> },
              { id: "state", label: "State", className: "w-28", cell: (delivery) => <State delivery={delivery} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.hasNextPage ? "Scroll for more." : "End of the list."}
          />
        </div>
      )}
    </div>
  );
}

function DeliveryCell({ delivery }: { delivery: Delivery }) {
  return (
    <>
      <span className="flex items-baseline gap-2 truncate">
        <Untrusted text={delivery.notice.replaceAll("_", " ")} line={60} />
        {delivery.severity !== "" && <span className="text-sm text-quiet">{delivery.severity}</span>}
        {delivery.approvalId !== "" && <ScreenLink to={`/approvals/${delivery.approvalId}`}>approval</ScreenLink>}
      </span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={delivery.problem || delivery.deliveryId} line={160} />
      </span>
    </>
  );
}

function ChatUsers() {
  const query = useQuery({ queryKey: ["notify", "chat"], queryFn: ({ signal }) => client(NotifyService).listChatUsers({}, { signal }) });
  if (query.isPending) return <Loading what="users" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <div className="flex flex-col gap-3">
      <div>
        <MapUser />
      </div>
      {query.data.users.length === 0 ? (
        <EmptyState title="No Slack users">Only mapped users can answer approvals in Slack.</EmptyState>
      ) : (
        <ul className="flex flex-col gap-2">
          {query.data.users.map((user) => (
            <li key={user.mappingId} className="flex flex-wrap items-center justify-between gap-3 rounded-lg border border-line bg-panel px-3 py-2">
              <span className="min-w-0">
                <code className="font-mono">
                  {user.team}/{user.user}
                </code>{" "}
                is <Untrusted text={user.member} className="font-semibold" />
                <span className="block text-sm text-quiet">
                  mapped by <Untrusted text={user.mappedBy} />, <Time at={user.mappedAt} />
                  {user.consentedAt === undefined ? "; cannot vote until the member consents" : "; votes as the member"}
                </span>
              </span>
              {user.consentedAt === undefined && (
                <ActionButton label="Consent" title="Allow this user to vote in your name?" confirmLabel="Consent" announcement="The user can vote in your name." needs="access.consent" keys={["notify"]} run={() => client(NotifyService).consentToChatUser({ team: user.team, user: user.user })}>
                  <p>Only the member can consent. The holder of the Slack account then answers approvals as you.</p>
                </ActionButton>
              )}
              <ActionButton label="Unmap" title="Remove this mapping?" confirmLabel="Unmap the user" announcement="The mapping is removed." variant="bad" needs="notify.write" keys={["notify"]} run={() => client(NotifyService).unmapChatUser({ team: user.team, user: user.user })}>
                <p>Votes of the user on pending approvals no longer count, and the user can no longer answer in Slack.</p>
              </ActionButton>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function MapUser() {
  const [team, setTeam] = useState("");
  const [user, setUser] = useState("");
  const [member, setMember] = useState("");
  return (
    <ActionButton
      label="Map a user"
      title="Map a Slack user to a member"
      confirmLabel="Map the user"
      announcement="The user is mapped, or a second approval is pending."
      needs="notify.write"
      keys={["notify", "approvals"]}
      run={() => client(NotifyService).mapChatUser({ team: team.trim(), user: user.trim(), member: member.trim() })}
    >
      <p>If another owner or admin exists, their approval is required. Use Slack ids and not names, because names can be reassigned.</p>
      <TextField label="Team" placeholder="T012AB3CD" className="font-mono" required pattern="T[A-Z0-9]{2,30}" value={team} onChange={(event) => setTeam(event.target.value)} />
      <TextField label="User" placeholder="U012AB3CD" className="font-mono" required pattern="[UW][A-Z0-9]{2,30}" value={user} onChange={(event) => setUser(event.target.value)} />
      <TextField label="Member" placeholder="user:ann" className="font-mono" required value={member} onChange={(event) => setMember(event.target.value)} />
    </ActionButton>
  );
}
