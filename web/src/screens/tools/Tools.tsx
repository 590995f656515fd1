import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Determining, HiddenTool, Tool } from "../../gen/palyra/v1/gateway_pb";
import { GatewayService } from "../../gen/palyra/v1/gateway_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { Checkbox } from "../../ui/Field";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Untrusted } from "../../ui/Untrusted";

interface Row {
  tool: Tool;
  hidden?: HiddenTool;
}

/** Whether agents execute the tool themselves and propose calls with their hooks. */
function isExternal(tool: Tool): boolean {
  return tool.executor === "external";
}

/** The catalog of tools for this member, including denied tools with the reason. */
export default function Tools() {
  const name = useParam("name");
  const query = useQuery({ queryKey: ["tools"], queryFn: ({ signal }) => client(GatewayService).listTools({}, { signal }) });
  const rows: Row[] = [...(query.data?.tools ?? []).map((tool) => ({ tool })), ...(query.data?.hidden ?? []).flatMap((hidden) => (hidden.tool === undefined ? [] : [{ tool: hidden.tool, hidden }]))];
  const [agents, setAgents] = useQueryParam("agents", "no");
  const one = rows.find((row) => row.tool.name === name);
  return (
    <Screen title={name === "" ? "Tools" : name} command={palyra("tools", ...(name === "" ? ["list", ...(agents === "yes" ? ["--agents"] : [])] : ["show", name]))} fill={name === ""} actions={name === "" ? <Checkbox label="Tools of agents" checked={agents === "yes"} onChange={(event) => setAgents(event.target.checked ? "yes" : "no")} /> : <ScreenLink to="/tools">All tools</ScreenLink>}>
      {query.isPending ? (
        <Loading what="tools" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : name === "" ? (
        <ToolTable rows={rows.filter((row) => isExternal(row.tool) === (agents === "yes"))} />
      ) : one === undefined ? (
        <EmptyState title="Tool not found, or not visible to you" />
      ) : (
        <ToolDetail row={one} />
      )}
    </Screen>
  );
}

function ToolTable({ rows }: { rows: readonly Row[] }) {
  if (rows.length === 0) return <EmptyState title="No tools are visible to you" />;
  return (
    <Table
      label="Tools"
      rows={rows}
      rowKey={(row) => row.tool.name}
      rowHeight={60}
      href={(row) => `/tools/${encodeURIComponent(row.tool.name)}`}
      isDimmed={(row) => row.hidden !== undefined}
      columns={[
        { id: "tool", label: "Tool", className: "grow", cell: (row) => <ToolCell tool={row.tool} /> },
        { id: "runs", label: "Executor", className: "w-52 max-md:hidden", cell: (row) => <code className="font-mono text-sm">{row.tool.executor}</code> },
        { id: "policy", label: "Policy", className: "w-28", cell: (row) => <Verdict row={row} /> },
      ]}
    />
  );
}

function ToolCell({ tool }: { tool: Tool }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={tool.name} line={100} className="font-semibold" />
      </span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={tool.title || tool.description} line={160} />
      </span>
    </>
  );
}

function Verdict({ row }: { row: Row }) {
  if (row.hidden !== undefined) return <Badge tone="bad">denied</Badge>;
  return row.tool.mayAsk ? <Badge tone="accent">may require approval</Badge> : <Badge tone="good">allowed</Badge>;
}

function ToolDetail({ row }: { row: Row }) {
  const { tool, hidden } = row;
  return (
    <>
      {hidden !== undefined && (
        <Notice tone="bad">
          <p>
            <Untrusted text={hidden.message} /> <code className="font-mono text-sm">{hidden.reason}</code>
          </p>
          {hidden.remedy !== "" && (
            <p>
              <Untrusted text={hidden.remedy} />
            </p>
          )}
          <DeterminingPolicies determining={hidden.determining} />
        </Notice>
      )}
      <p className="whitespace-pre-wrap">
        <Untrusted text={tool.description} />
      </p>
      <KeyValue
        rows={[
          ["Policy", <Verdict row={row} />],
          ["Executor", <code className="font-mono text-sm">{tool.executor}</code>],
          ["Capabilities", tool.capabilities.join(", ")],
          ["Sensitive", tool.sensitive ? "yes: requires approval unless policy waives it" : "no"],
          ["Annotations", [tool.readOnly && "read only", tool.destructive && "destructive"].filter(Boolean).join(", ")],
          ["Definition", <Id id={tool.definitionDigest} />],
        ]}
      />
      <Section title="Input schema">
        <Json bytes={tool.inputSchemaJson} />
      </Section>
    </>
  );
}

/** The policies that determined a verdict. */
export function DeterminingPolicies({ determining }: { determining: readonly Determining[] }) {
  if (determining.length === 0) return null;
  return (
    <ul className="mt-1 flex flex-col gap-1 text-sm">
      {determining.map((policy) => (
        <li key={`${policy.file} ${policy.policyId} ${policy.line}`}>
          {policy.effect} <Untrusted text={policy.policyId} className="font-mono" /> in <Untrusted text={`${policy.file}:${policy.line}`} className="font-mono" />
          {policy.reason !== "" && (
            <>
              : <Untrusted text={policy.reason} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
