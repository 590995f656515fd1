import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Delivery, NotifyTarget } from "../../gen/palyra/v1/notify_pb";
import { NotifyService } from "../../gen/palyra/v1/notify_pb";
import { Screen } from "../../shell/Screen";
import { ScreenLink, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Act } from "../../ui/Act";
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

/** Where people are told of what happens, what arrived there, and who users of chats are. */
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
          { id: "chat", label: "Users of Slack", content: <ChatUsers /> },
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
  if (query.data.targets.length === 0) return <EmptyState title="Nobody is told">Declare [[notify]] in palyra.toml: a webhook, Slack or email (docs/config.md).</EmptyState>;
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
          {target.problem !== "" ? <Badge tone="bad">the last try failed</Badge> : target.queued > 0 ? <Badge tone="warn">{target.queued} wait</Badge> : <Badge tone="good">nothing waits</Badge>}
        </span>
        <Button size="small" needs="notify.write" off={test.isPending ? "On its way." : undefined} onClick={() => test.mutate()}>
          Send a test
        </Button>
      </div>
      <KeyValue
        rows={[
          ["Where", <Untrusted text={target.where} className="font-mono" />],
          ["Told of", <Untrusted text={target.events.join(", ") || "everything"} />],
          ["From severity", target.minSeverity],
          ["How much of a call", target.include],
          ["Connection", target.connection !== "" && <Untrusted text={target.connection} />],
          ["Problem", target.problem !== "" && <Untrusted text={target.problem} />],
        ]}
      />
      <div role="status">
        {test.isPending && <p className="text-quiet">The notice is on its way…</p>}
        {test.isError && <ErrorState error={test.error} />}
        {delivery !== undefined && !test.isPending && (
          <p className="flex flex-wrap items-center gap-2">
            <State delivery={delivery} />
            <Untrusted text={delivery.problem || "The test arrived."} />
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
        <Button onClick={() => void query.refetch()} off={query.isFetching ? "On its way." : undefined}>
          Ask again
        </Button>
      </div>
      {query.isPending ? (
        <Loading what="deliveries" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No delivery is so" />
      ) : (
        <div className="flex h-[60vh] min-h-72 flex-col">
          <Table
            label="Deliveries"
            rows={rows}
            rowKey={(delivery) => delivery.deliveryId}
            rowHeight={60}
            columns={[
              { id: "what", label: "Notice", className: "grow", cell: (delivery) => <Told delivery={delivery} /> },
              { id: "target", label: "Target", className: "w-32 max-sm:hidden", cell: (delivery) => <Untrusted text={delivery.target} line={30} /> },
              { id: "tries", label: "Tries", className: "w-14 text-right max-md:hidden", cell: (delivery) => delivery.attempts },
              { id: "at", label: "When", className: "w-24 max-sm:hidden", cell: (delivery) => <Time at={delivery.endedAt ?? delivery.queuedAt} /> },
              { id: "state", label: "State", className: "w-28", cell: (delivery) => <State delivery={delivery} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.hasNextPage ? "More follow." : "No more."}
          />
        </div>
      )}
    </div>
  );
}

function Told({ delivery }: { delivery: Delivery }) {
  return (
    <>
      <span className="flex items-baseline gap-2 truncate">
        <Untrusted text={delivery.notice.replaceAll("_", " ")} line={60} />
        {delivery.severity !== "" && <span className="text-sm text-quiet">{delivery.severity}</span>}
        {delivery.approvalId !== "" && <ScreenLink to={`/approvals/${delivery.approvalId}`}>the ask</ScreenLink>}
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
        <EmptyState title="No user of Slack is known">Whoever is not named here decides nothing there.</EmptyState>
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
                  said by <Untrusted text={user.mappedBy} />, <Time at={user.mappedAt} />
                  {user.consentedAt === undefined ? "; does not vote before the member consents" : "; votes as the member"}
                </span>
              </span>
              {user.consentedAt === undefined && (
                <Act label="Consent" title="Let this user vote in your name?" does="Consent" said="The user votes in your name." needs="access.consent" keys={["notify"]} run={() => client(NotifyService).consentToChatUser({ team: user.team, user: user.user })}>
                  <p>Only the member can say so. Whoever has that account in Slack then answers approvals as you.</p>
                </Act>
              )}
              <Act label="Forget" title="Forget who this user is?" does="Forget the user" said="The user is forgotten." look="bad" needs="notify.write" keys={["notify"]} run={() => client(NotifyService).unmapChatUser({ team: user.team, user: user.user })}>
                <p>Their votes on what is still open count no more, and they decide nothing by chat.</p>
              </Act>
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
    <Act
      label="Say who a user is"
      title="Which member is a user of Slack?"
      does="Say that they are the same"
      said="The gateway knows the user, or waits for a second person."
      needs="notify.write"
      keys={["notify", "approvals"]}
      run={() => client(NotifyService).mapChatUser({ team: team.trim(), user: user.trim(), member: member.trim() })}
    >
      <p>Where there is a second owner or admin, it takes their yes. Ids are those of Slack, never names: a name can be taken by somebody else.</p>
      <TextField label="Team" placeholder="T012AB3CD" className="font-mono" required pattern="T[A-Z0-9]{2,30}" value={team} onChange={(event) => setTeam(event.target.value)} />
      <TextField label="User" placeholder="U012AB3CD" className="font-mono" required pattern="[UW][A-Z0-9]{2,30}" value={user} onChange={(event) => setUser(event.target.value)} />
      <TextField label="Member" placeholder="user:ann" className="font-mono" required value={member} onChange={(event) => setMember(event.target.value)} />
    </Act>
  );
}
