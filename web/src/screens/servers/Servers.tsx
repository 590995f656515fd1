import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { GetUpstreamResponse, Upstream, UpstreamChange } from "../../gen/palyra/v1/mcp_pb";
import { McpService } from "../../gen/palyra/v1/mcp_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam } from "../../shell/router";
import { palyra, quote } from "../../text/cli";
import { layOut } from "../../text/json";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import type { DiffFile } from "../../ui/Diff";
import { Diff } from "../../ui/Diff";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { differences } from "../../ui/lines";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The upstream MCP servers: what each is, what it offers, and changes that wait for a yes. */
export default function Servers() {
  const name = useParam("name");
  return name === "" ? <All /> : <One key={name} name={name} />;
}

function All() {
  const query = useQuery({ queryKey: ["upstreams"], queryFn: ({ signal }) => client(McpService).listUpstreams({}, { signal }) });
  return (
    <Screen title="MCP servers" command={palyra("mcp", "list")} fill>
      {query.isPending ? (
        <Loading what="servers" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.upstreams.length === 0 ? (
        <EmptyState title="No MCP server is behind this gateway">
          Add one with <code className="font-mono">palyra mcp add</code>, or move those of your agents with <code className="font-mono">palyra mcp import</code>.
        </EmptyState>
      ) : (
        <Table
          label="MCP servers"
          rows={query.data.upstreams}
          rowKey={(upstream) => upstream.server?.name ?? ""}
          rowHeight={60}
          href={(upstream) => `/servers/${upstream.server?.name ?? ""}`}
          columns={[
            { id: "name", label: "Server", className: "grow", cell: (upstream) => <Named upstream={upstream} /> },
            { id: "tools", label: "Tools", className: "w-20 text-right max-sm:hidden", cell: (upstream) => upstream.tools },
            { id: "calls", label: "Under way", className: "w-20 text-right max-md:hidden", cell: (upstream) => upstream.calls },
            { id: "state", label: "State", className: "w-36", cell: (upstream) => <State upstream={upstream} /> },
          ]}
        />
      )}
    </Screen>
  );
}

function Named({ upstream }: { upstream: Upstream }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={upstream.server?.name ?? ""} line={40} className="font-semibold" />
      </span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={placeOf(upstream)} line={160} />
      </span>
    </>
  );
}

function placeOf(upstream: Upstream): string {
  const server = upstream.server;
  if (server === undefined) return "";
  return server.url === "" ? server.command.map(quote).join(" ") : server.url;
}

function State({ upstream }: { upstream: Upstream }) {
  if (upstream.problem !== "") return <Badge tone="bad">does not work</Badge>;
  if (upstream.pending > 0) return <Badge tone="warn">{upstream.pending} changed</Badge>;
  if (upstream.suspended > 0) return <Badge tone="warn">{upstream.suspended} suspended</Badge>;
  return <Badge tone="good">works</Badge>;
}

function One({ name }: { name: string }) {
  const query = useQuery({ queryKey: ["upstreams", name], queryFn: ({ signal }) => client(McpService).getUpstream({ name }, { signal }) });
  return (
    <Screen
      title={name}
      command={palyra("mcp", "show", name)}
      actions={
        <>
          <ScreenLink to="/servers">All servers</ScreenLink>
          <Act label="Ask it again" title="Ask the server what it offers?" does="Ask the server" said="The server was asked." needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).refreshUpstream({ name })}>
            <p>It is started, or dialled, and what it says is compared with what was approved.</p>
          </Act>
          <Act label="Remove" title="Remove this server?" does="Remove the server" said="The server is removed." look="bad" needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).removeUpstream({ name })}>
            <p>Its tools are gone from the catalog at once, and its programs are stopped. The journal keeps what was called.</p>
          </Act>
        </>
      }
    >
      {query.isPending ? <Loading what="the server" /> : query.isError ? <ErrorState error={query.error} retry={() => void query.refetch()} /> : <Found found={query.data} />}
    </Screen>
  );
}

function Found({ found }: { found: GetUpstreamResponse }) {
  const upstream = found.upstream;
  if (upstream === undefined) return <EmptyState title="There is no such server" />;
  const server = upstream.server;
  return (
    <>
      {upstream.problem !== "" && (
        <Notice tone="bad">
          <Untrusted text={upstream.problem} /> <Untrusted text={upstream.remedy} />
        </Notice>
      )}
      {/* A server that changes again ends what was begun about the change before. */}
      {found.changes.length > 0 && <Changes key={upstream.pendingDigest} upstream={upstream} changes={found.changes} />}
      <KeyValue
        rows={[
          ["State", <State upstream={upstream} />],
          ["Runs", <Untrusted text={placeOf(upstream)} className="font-mono" />],
          ["Is", upstream.implementation !== "" && <Untrusted text={upstream.implementation} />],
          ["Protocol", upstream.protocol],
          ["Workspace", server !== undefined && server.workspace !== "" && `${server.workspace}${server.write ? ", may write" : ", reads only"}`],
          ["Reaches", server?.hosts.join(", ")],
          ["Secrets", server?.secrets.join(", ")],
          ["Shared", server?.shared === true && "one program for all members"],
          ["Trusted", server?.trusted === true && "its annotations count for policy"],
          ["Added", <Time at={upstream.addedAt} full />],
          ["Added by", <Untrusted text={upstream.addedBy} />],
          ["Approved", upstream.approvedAt !== undefined && <Time at={upstream.approvedAt} full />],
          ["Approved by", upstream.approvedBy !== "" && <Untrusted text={upstream.approvedBy} />],
          ["Definitions", upstream.digest !== "" && <Id id={upstream.digest} />],
        ]}
      />
      <Section title="What it offers">
        {found.definitions.length === 0 ? (
          <EmptyState title="Nothing that is approved yet" />
        ) : (
          <ul className="flex flex-col gap-1">
            {found.definitions.map((definition) => (
              <li key={`${definition.kind} ${definition.name}`}>
                <details>
                  <summary className="cursor-pointer">
                    <Badge>{definition.kind}</Badge> <Untrusted text={definition.name} line={120} />
                  </summary>
                  <Json bytes={definition.definitionJson} />
                </details>
              </li>
            ))}
          </ul>
        )}
      </Section>
    </>
  );
}

function diffOf(change: UpstreamChange): DiffFile {
  const lines = (bytes: Uint8Array) => (bytes.length === 0 ? [] : layOut(new TextDecoder().decode(bytes)).split("\n"));
  const kind = change.wasJson.length === 0 ? "create" : change.isJson.length === 0 ? "delete" : "modify";
  return { kind, path: change.name, oldPath: "", oldMode: "", newMode: "", binary: false, hunks: [differences(lines(change.wasJson), lines(change.isJson))] };
}

function Whole({ title, bytes }: { title: string; bytes: Uint8Array }) {
  return (
    <details>
      <summary className="cursor-pointer text-sm">{title}, whole</summary>
      <Json bytes={bytes} />
    </details>
  );
}

/** What the server says otherwise than was approved, side by side; those tools are suspended until somebody says yes. */
function Changes({ upstream, changes }: { upstream: Upstream; changes: readonly UpstreamChange[] }) {
  const name = upstream.server?.name ?? "";
  return (
    <Section
      title="Changes that wait for a yes"
      actions={
        <Act label="Approve" title="Approve what the server says now?" does="Approve the definitions" said="The definitions are approved." needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).approveUpstream({ name, pendingDigest: upstream.pendingDigest })}>
          <p>
            You approve exactly what is shown here, by its digest <code className="font-mono break-all">{upstream.pendingDigest}</code>. A model reads these descriptions as if you had written them.
          </p>
        </Act>
      }
    >
      <ul className="flex flex-col gap-3">
        {changes.map((change) => (
          <li key={`${change.kind} ${change.name}`} className="rounded-lg border border-warn p-3">
            <p className="mb-2 flex flex-wrap gap-2">
              <Badge tone="warn">{change.change}</Badge>
              <Badge>{change.kind}</Badge>
              <Untrusted text={change.name} line={120} />
            </p>
            <Diff files={[diffOf(change)]} />
            <div className="mt-2 grid gap-3 lg:grid-cols-2">
              {change.wasJson.length > 0 && <Whole title="As it was approved" bytes={change.wasJson} />}
              {change.isJson.length > 0 && <Whole title="As it is now" bytes={change.isJson} />}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}
