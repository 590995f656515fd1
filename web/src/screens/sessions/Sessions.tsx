import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { ConsoleSession } from "../../gen/palyra/v1/console_pb";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import type { Session } from "../../gen/palyra/v1/sessions_pb";
import { SessionService, SessionState } from "../../gen/palyra/v1/sessions_pb";
import { hasScreen } from "../../routes";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { Checkbox } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** Who is in the console, and the sessions by which the gateway counts what callers do. */
export default function Sessions() {
  const id = useParam("id");
  return id === "" ? <All /> : <One key={id} id={id} />;
}

function All() {
  const [tab, setTab] = useQueryParam("tab", "gateway");
  const [all, setAll] = useQueryParam("all", "no");
  return (
    <Screen
      title="Sessions"
      command={tab === "console" ? palyra("console", "sessions") : palyra("sessions", "list", ...(all === "yes" ? ["--all"] : []))}
      actions={tab === "gateway" && <Checkbox label="Also those that ended" checked={all === "yes"} onChange={(event) => setAll(event.target.checked ? "yes" : "no")} />}
    >
      <Tabs
        label="Sessions"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "gateway", label: "Of callers", content: <Callers all={all === "yes"} /> },
          { id: "console", label: "Of this console", content: <Consoles /> },
        ]}
      />
    </Screen>
  );
}

function Callers({ all }: { all: boolean }) {
  const query = useInfiniteQuery({
    queryKey: ["sessions", all],
    queryFn: ({ pageParam, signal }) => client(SessionService).listSessions({ all, pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  if (query.isPending) return <Loading what="sessions" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const rows = query.data.pages.flatMap((page) => page.sessions);
  if (rows.length === 0) return <EmptyState title="No session is open">One begins with the first call of a caller.</EmptyState>;
  return (
    <div className="flex h-[65vh] min-h-72 flex-col">
      <Table
        label="Sessions of callers"
        rows={rows}
        rowKey={(session) => session.sessionId}
        rowHeight={60}
        href={(session) => `/sessions/${session.sessionId}`}
        dim={(session) => session.state !== SessionState.OPEN}
        columns={[
          { id: "who", label: "Who", className: "grow", cell: (session) => <Named session={session} /> },
          { id: "calls", label: "Calls", className: "w-24 text-right", cell: (session) => counted(session) },
          { id: "last", label: "Last used", className: "w-28 max-sm:hidden", cell: (session) => <Time at={session.lastAt} /> },
          { id: "state", label: "State", className: "w-20", cell: (session) => <State session={session} /> },
        ]}
        onEnd={() => {
          if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
        }}
        end={query.hasNextPage ? "More follow." : "No more."}
      />
    </div>
  );
}

function Named({ session }: { session: Session }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={session.principal} line={80} className="font-semibold" />
      </span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={[session.client, session.onBehalfOf === "" ? "" : `for ${session.onBehalfOf}`, session.sessionId].filter(Boolean).join(" · ")} line={120} />
      </span>
    </>
  );
}

function counted(session: Session): string {
  return session.limit > 0n ? `${session.calls.toLocaleString()} of ${session.limit.toLocaleString()}` : session.calls.toLocaleString();
}

function State({ session }: { session: Session }) {
  switch (session.state) {
    case SessionState.OPEN:
      return <Badge tone="good">open</Badge>;
    case SessionState.IDLE:
      return <Badge>idle</Badge>;
    default:
      return <Badge tone="warn">ended</Badge>;
  }
}

function One({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["sessions", "one", id], queryFn: ({ signal }) => client(SessionService).getSession({ sessionId: id }, { signal }) });
  const session = query.data?.session;
  const facts = query.data?.facts;
  return (
    <Screen
      title="Session"
      command={palyra("sessions", "show", id)}
      actions={
        <>
          <ScreenLink to="/sessions">All sessions</ScreenLink>
          {session !== undefined && session.state !== SessionState.ENDED && (
            <Act label="End" title="End this session?" does="End the session" said="The session is ended." look="bad" needs="run.cancel" reason="Reason (kept in the journal)" keys={["sessions"]} run={(reason) => client(SessionService).endSession({ sessionId: id, reason })}>
              <p>The next call of its caller begins another, in which taint, budget and everything else that policy reads of the past start anew. Calls under way end in this one.</p>
            </Act>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the session" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : session === undefined ? (
        <EmptyState title="There is no such session" />
      ) : (
        <>
          {facts?.tainted === true && <Notice tone="warn">It is tainted: its caller has read what strangers can write.</Notice>}
          <KeyValue
            rows={[
              ["State", <State session={session} />],
              ["Id", <Id id={session.sessionId} keep={26} />],
              ["Principal", <Untrusted text={session.principal} />],
              ["On behalf of", session.onBehalfOf !== "" && <Untrusted text={session.onBehalfOf} />],
              ["Client", <Untrusted text={session.client} />],
              ["Device", session.deviceId !== "" && (hasScreen("/devices") ? <ScreenLink to={`/devices/${session.deviceId}`}>{session.deviceId}</ScreenLink> : <Id id={session.deviceId} keep={26} />)],
              ["Began", <Time at={session.startedAt} full />],
              ["Last used", <Time at={session.lastAt} full />],
              ["Ended", session.endedAt !== undefined && <Time at={session.endedAt} full />],
              ["Ended by", session.endedBy !== "" && <Untrusted text={session.endedBy} />],
              ["Reason", session.endReason !== "" && <Untrusted text={session.endReason} />],
              ["Calls", counted(session)],
              ["Calls of runs", session.runCalls > 0n && session.runCalls.toLocaleString()],
            ]}
          />
          {facts !== undefined && (
            <Section title="What policy reads of it">
              <KeyValue
                rows={[
                  ["Tainted", facts.tainted ? "yes" : "no"],
                  ["Calls under way", facts.inFlight.toLocaleString()],
                  ["Bytes sent out", facts.bytesOut.toLocaleString()],
                  ["Tools used", <Untrusted text={facts.toolsUsed.join(", ") || "none"} />],
                  ["Secrets read", <Untrusted text={facts.secretsRead.join(", ") || "none"} />],
                ]}
              />
            </Section>
          )}
        </>
      )}
    </Screen>
  );
}

function Consoles() {
  const query = useQuery({ queryKey: ["sessions", "console"], queryFn: ({ signal }) => client(ConsoleService).listConsoleSessions({}, { signal }) });
  if (query.isPending) return <Loading what="sessions" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <ul className="flex flex-col gap-2">
      {query.data.sessions.map((session) => (
        <li key={session.sessionId} className="flex flex-wrap items-start justify-between gap-3 rounded-lg border border-line bg-panel px-3 py-2">
          <div className="min-w-0 flex-1">
            <p className="flex flex-wrap items-center gap-2">
              <Untrusted text={session.principal} className="font-semibold" />
              {session.current && <Badge tone="accent">this one</Badge>}
              <Badge>{session.loginId === "" ? "identity provider" : "login link"}</Badge>
              <span className="text-sm">
                <Countdown until={session.endsAt} over="ended" />
              </span>
            </p>
            <p className="text-sm text-quiet">
              Began <Time at={session.createdAt} />, last used <Time at={session.lastUsedAt} />, from <Untrusted text={session.address} />
            </p>
            <p className="text-sm text-quiet">
              <Untrusted text={session.userAgent} className="font-mono" />
            </p>
          </div>
          <Revoke session={session} />
        </li>
      ))}
    </ul>
  );
}

function Revoke({ session }: { session: ConsoleSession }) {
  return (
    <Act
      label="End"
      title={session.current ? "End the session that you are in?" : "End this session?"}
      does="End the session"
      said="The session is ended."
      look="bad"
      keys={["sessions"]}
      run={() => client(ConsoleService).revokeConsoleSession({ sessionId: session.sessionId })}
    >
      <p>
        What is open in it ends at once, in all its tabs. {session.current ? "You will have to log in again." : "Its browser has to log in again."} Whoever holds the device that made the login can make another: revoke the device to keep them out.
      </p>
    </Act>
  );
}
