import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { GetUpstreamResponse, Upstream, UpstreamChange } from "../../gen/palyra/v1/mcp_pb";
import { McpService } from "../../gen/palyra/v1/mcp_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam } from "../../shell/router";
import { palyra, quote } from "../../text/cli";
import { indentJson } from "../../text/json";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import type { DiffFile } from "../../ui/Diff";
import { Diff } from "../../ui/Diff";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { diffLines } from "../../ui/lines";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The upstream MCP servers: status, definitions, and changes that require approval. */
export default function Servers() {
  const name = useParam("name");
  return name === "" ? <ServersPage /> : <ServerPage key={name} name={name} />;
}

function ServersPage() {
  const query = useQuery({ queryKey: ["upstreams"], queryFn: ({ signal }) => client(McpService).listUpstreams({}, { signal }) });
  return (
    <Screen title="MCP servers" command={palyra("mcp", "list")} fill>
      {query.isPending ? (
        <Loading what="servers" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.upstreams.length === 0 ? (
        <EmptyState title="No MCP servers">
          Add one with <code className="font-mono">palyra mcp add</code>, or move the servers of your agents with <code className="font-mono">palyra mcp import</code>.
        </EmptyState>
      ) : (
        <Table
          label="MCP servers"
          rows={query.data.upstreams}
          rowKey={(upstream) => upstream.server?.name ?? ""}
          rowHeight={60}
          href={(upstream) => `/servers/${upstream.server?.name ?? ""}`}
          columns={[
            { id: "name", label: "Server", className: "grow", cell: (upstream) => <ServerCell upstream={upstream} /> },
            { id: "tools", label: "Tools", className: "w-20 text-right max-sm:hidden", cell: (upstream) => upstream.tools },
            { id: "calls", label: "Active calls", className: "w-20 text-right max-md:hidden", cell: (upstream) => upstream.calls },
            { id: "state", label: "State", className: "w-36", cell: (upstream) => <State upstream={upstream} /> },
          ]}
        />
      )}
    </Screen>
  );
}

function ServerCell({ upstream }: { upstream: Upstream }) {
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
  if (upstream.problem !== "") return <Badge tone="bad">failed</Badge>;
  if (upstream.pending > 0) return <Badge tone="warn">{upstream.pending} changed</Badge>;
  if (upstream.suspended > 0) return <Badge tone="warn">{upstream.suspended} suspended</Badge>;
  return <Badge tone="good">connected</Badge>;
}

function ServerPage({ name }: { name: string }) {
  const query = useQuery({ queryKey: ["upstreams", name], queryFn: ({ signal }) => client(McpService).getUpstream({ name }, { signal }) });
  return (
    <Screen
      title={name}
      command={palyra("mcp", "show", name)}
      actions={
        <>
          <ScreenLink to="/servers">All servers</ScreenLink>
          <ActionButton label="Refresh" title="Refresh this server?" confirmLabel="Refresh the server" announcement="The server is refreshed." needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).refreshUpstream({ name })}>
            <p>The gateway reconnects to the server and compares its definitions with the approved ones.</p>
          </ActionButton>
          <ActionButton label="Remove" title="Remove this server?" confirmLabel="Remove the server" announcement="The server is removed." variant="bad" needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).removeUpstream({ name })}>
            <p>Its tools are removed from the catalog, and its programs are stopped. The journal keeps its calls.</p>
          </ActionButton>
        </>
      }
    >
      {query.isPending ? <Loading what="the server" /> : query.isError ? <ErrorState error={query.error} retry={() => void query.refetch()} /> : <ServerDetail response={query.data} />}
    </Screen>
  );
}

function ServerDetail({ response }: { response: GetUpstreamResponse }) {
  const upstream = response.upstream;
  if (upstream === undefined) return <EmptyState title="Server not found" />;
  const server = upstream.server;
  return (
    <>
      {upstream.problem !== "" && (
        <Notice tone="bad">
          <Untrusted text={upstream.problem} /> <Untrusted text={upstream.remedy} />
        </Notice>
      )}
      {/* A further change of the server resets the pending approval. */}
      {response.changes.length > 0 && <Changes key={upstream.pendingDigest} upstream={upstream} changes={response.changes} />}
      <KeyValue
        rows={[
          ["State", <State upstream={upstream} />],
          ["Command or URL", <Untrusted text={placeOf(upstream)} className="font-mono" />],
          ["Implementation", upstream.implementation !== "" && <Untrusted text={upstream.implementation} />],
          ["Protocol", upstream.protocol],
          ["Workspace", server !== undefined && server.workspace !== "" && `${server.workspace}${server.write ? ", read and write" : ", read only"}`],
          ["Network", server?.hosts.join(", ")],
          ["Secrets", server?.secrets.join(", ")],
          ["Shared", server?.shared === true && "one program for all members"],
          ["Trusted", server?.trusted === true && "policy uses its annotations"],
          ["Added", <Time at={upstream.addedAt} full />],
          ["Added by", <Untrusted text={upstream.addedBy} />],
          ["Approved", upstream.approvedAt !== undefined && <Time at={upstream.approvedAt} full />],
          ["Approved by", upstream.approvedBy !== "" && <Untrusted text={upstream.approvedBy} />],
          ["Definitions", upstream.digest !== "" && <Id id={upstream.digest} />],
        ]}
      />
      <Section title="Definitions">
        {response.definitions.length === 0 ? (
          <EmptyState title="No approved definitions yet" />
        ) : (
          <ul className="flex flex-col gap-1">
            {response.definitions.map((definition) => (
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
  const lines = (bytes: Uint8Array) => (bytes.length === 0 ? [] : indentJson(new TextDecoder().decode(bytes)).split("\n"));
  const kind = change.wasJson.length === 0 ? "create" : change.isJson.length === 0 ? "delete" : "modify";
  return { kind, path: change.name, oldPath: "", oldMode: "", newMode: "", binary: false, hunks: [diffLines(lines(change.wasJson), lines(change.isJson))] };
}

function Definition({ title, bytes }: { title: string; bytes: Uint8Array }) {
  return (
    <details>
      <summary className="cursor-pointer text-sm">{title}</summary>
      <Json bytes={bytes} />
    </details>
  );
}

/** The differences from the approved definitions; the changed tools are suspended until they are approved. */
function Changes({ upstream, changes }: { upstream: Upstream; changes: readonly UpstreamChange[] }) {
  const name = upstream.server?.name ?? "";
  return (
    <Section
      title="Changes that require approval"
      actions={
        <ActionButton label="Approve" title="Approve the current definitions?" confirmLabel="Approve the definitions" announcement="The definitions are approved." needs="upstream.write" keys={["upstreams", "tools"]} run={() => client(McpService).approveUpstream({ name, pendingDigest: upstream.pendingDigest })}>
          <p>
            You approve exactly the displayed definitions, with the digest <code className="font-mono break-all">{upstream.pendingDigest}</code>. Models trust these descriptions as if you had written them.
          </p>
        </ActionButton>
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
              {change.wasJson.length > 0 && <Definition title="Approved definition" bytes={change.wasJson} />}
              {change.isJson.length > 0 && <Definition title="Current definition" bytes={change.isJson} />}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}
