import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { ConsoleSession } from "../../gen/palyra/v1/console_pb";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import type { Session } from "../../gen/palyra/v1/sessions_pb";
import { SessionService, SessionState } from "../../gen/palyra/v1/sessions_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { Checkbox } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The sessions of callers, and the sessions of the console. */
export default function Sessions() {
  const id = useParam("id");
  return id === "" ? <SessionsPage /> : <SessionPage key={id} id={id} />;
}

function SessionsPage() {
  const [tab, setTab] = useQueryParam("tab", "gateway");
  const [all, setAll] = useQueryParam("all", "no");
  return (
    <Screen
      title="Sessions"
      command={tab === "console" ? palyra("console", "sessions") : palyra("sessions", "list", ...(all === "yes" ? ["--all"] : []))}
      actions={tab === "gateway" && <Checkbox label="Include ended sessions" checked={all === "yes"} onChange={(event) => setAll(event.target.checked ? "yes" : "no")} />}
    >
      <Tabs
        label="Sessions"
        value={tab}
        onChange={setTab}
        tabs={[
          { id: "gateway", label: "Callers", content: <CallerSessions all={all === "yes"} /> },
          { id: "console", label: "Console", content: <ConsoleSessions /> },
        ]}
      />
    </Screen>
  );
}

function CallerSessions({ all }: { all: boolean }) {
  const query = useInfiniteQuery({
    queryKey: ["sessions", all],
    queryFn: ({ pageParam, signal }) => client(SessionService).listSessions({ all, pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  if (query.isPending) return <Loading what="sessions" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  const rows = query.data.pages.flatMap((page) => page.sessions);
  if (rows.length === 0) return <EmptyState title="No open sessions">A session starts with the first call of a caller.</EmptyState>;
  return (
    <div className="flex h-[65vh] min-h-72 flex-col">
      <Table
        label="Sessions of callers"
        rows={rows}
        rowKey={(session) => session.sessionId}
        rowHeight={60}
        href={(session) => `/sessions/${session.sessionId}`}
        isDimmed={(session) => session.state !== SessionState.OPEN}
        columns={[
          { id: "who", label: "Caller", className: "grow", cell: (session) => <SessionCell session={session} /> },
          { id: "calls", label: "Calls", className: "w-24 text-right", cell: (session) => formatCalls(session) },
          { id: "last", label: "Last used", className: "w-28 max-sm:hidden", cell: (session) => <Time at={session.lastAt} /> },
          { id: "state", label: "State", className: "w-20", cell: (session) => <State session={session} /> },
        ]}
        onEnd={() => {
          if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
        }}
        end={query.hasNextPage ? "Scroll for more." : "End of the list."}
      />
    </div>
  );
}

function SessionCell({ session }: { session: Session }) {
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

function formatCalls(session: Session): string {
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

function SessionPage({ id }: { id: string }) {
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
            <ActionButton label="End" title="End this session?" confirmLabel="End the session" announcement="The session is ended." variant="bad" needs="run.cancel" reason="Reason (kept in the journal)" keys={["sessions"]} run={(reason) => client(SessionService).endSession({ sessionId: id, reason })}>
              <p>The next call of the caller starts a new session, in which taint, budgets and the other facts for policy are reset. Active calls finish in this session.</p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the session" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : session === undefined ? (
        <EmptyState title="Session not found" />
      ) : (
        <>
          {facts?.tainted === true && <Notice tone="warn">This session is tainted: its caller has read content from untrusted sources.</Notice>}
          <KeyValue
            rows={[
              ["State", <State session={session} />],
              ["Id", <Id id={session.sessionId} keep={26} />],
              ["Principal", <Untrusted text={session.principal} />],
              ["On behalf of", session.onBehalfOf !== "" && <Untrusted text={session.onBehalfOf} />],
              ["Client", <Untrusted text={session.client} />],
              ["Device", session.deviceId !== "" && <ScreenLink to={`/devices/${session.deviceId}`}>{session.deviceId}</ScreenLink>],
              ["Started", <Time at={session.startedAt} full />],
              ["Last used", <Time at={session.lastAt} full />],
              ["Ended", session.endedAt !== undefined && <Time at={session.endedAt} full />],
              ["Ended by", session.endedBy !== "" && <Untrusted text={session.endedBy} />],
              ["Reason", session.endReason !== "" && <Untrusted text={session.endReason} />],
              ["Calls", formatCalls(session)],
              ["Calls of runs", session.runCalls > 0n && session.runCalls.toLocaleString()],
            ]}
          />
          {facts !== undefined && (
            <Section title="Facts for policy">
              <KeyValue
                rows={[
                  ["Tainted", facts.tainted ? "yes" : "no"],
                  ["Active calls", facts.inFlight.toLocaleString()],
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

function ConsoleSessions() {
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
              {session.current && <Badge tone="accent">current</Badge>}
              <Badge>{session.loginId === "" ? "identity provider" : "login link"}</Badge>
              <span className="text-sm">
                <Countdown until={session.endsAt} expiredLabel="ended" />
              </span>
            </p>
            <p className="text-sm text-quiet">
              Started <Time at={session.createdAt} />, last used <Time at={session.lastUsedAt} />, from <Untrusted text={session.address} />
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
    <ActionButton
      label="End"
      title={session.current ? "End your current session?" : "End this session?"}
      confirmLabel="End the session"
      announcement="The session is ended."
      variant="bad"
      keys={["sessions"]}
      run={() => client(ConsoleService).revokeConsoleSession({ sessionId: session.sessionId })}
    >
      <p>
        The session ends in all its tabs. {session.current ? "You must log in again." : "Its browser must log in again."} The holder of the device that created the login can log in again: revoke the device to prevent that.
      </p>
    </ActionButton>
  );
}
