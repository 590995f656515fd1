import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import { useCan } from "../../api/whoami";
import type { Call, CallStep } from "../../gen/palyra/v1/gateway_pb";
import { CallState, GatewayService } from "../../gen/palyra/v1/gateway_pb";
import { AttestationService } from "../../gen/palyra/v1/attestation_pb";
import { RunLink } from "../../shell/RunLink";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Id } from "../../ui/Copy";
import { Checkbox } from "../../ui/Field";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { base64 } from "../../verify/bytes";
import { argumentsOf, callStatus } from "./words";

/** The calls of tools, from the proposal to the attestation. */
export default function Calls() {
  const id = useParam("id");
  return id === "" ? <CallsPage /> : <CallPage key={id} id={id} />;
}

function CallsPage() {
  const [open, setOpen] = useQueryParam("open", "no");
  return (
    <Screen title="Calls" command={palyra("calls", "list", ...(open === "yes" ? ["--open"] : []))} fill actions={<Checkbox label="Only active calls" checked={open === "yes"} onChange={(event) => setOpen(event.target.checked ? "yes" : "no")} />}>
      <CallList run="" open={open === "yes"} />
    </Screen>
  );
}

/** The calls of a run, or all calls. */
export function CallList({ run, open }: { run: string; open: boolean }) {
  const query = useInfiniteQuery({
    queryKey: ["calls", run, open],
    queryFn: ({ pageParam, signal }) => client(GatewayService).listCalls({ run, open, pageSize: 100, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.calls) ?? [];
  if (query.isPending) return <Loading what="calls" />;
  if (query.isError) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (rows.length === 0) return <EmptyState title={open ? "No active calls" : "No calls yet"}>Agents propose calls over MCP, with hooks, in a run, or with palyra call.</EmptyState>;
  return (
    <Table
      label="Calls"
      rows={rows}
      rowKey={(call) => call.proposalId}
      rowHeight={60}
      href={(call) => `/calls/${call.proposalId}`}
      columns={[
        { id: "call", label: "Call", className: "grow", cell: (call) => <CallCell call={call} /> },
        { id: "who", label: "Principal", className: "w-40 max-md:hidden", cell: (call) => <Untrusted text={call.principal} line={40} /> },
        { id: "state", label: "State", className: "w-36", cell: (call) => <Badge tone={callStatus(call).tone}>{callStatus(call).word}</Badge> },
        { id: "at", label: "When", className: "w-24 text-right max-sm:hidden", cell: (call) => <Time at={call.proposedAt} /> },
      ]}
      onEnd={() => {
        if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
      }}
      end={query.hasNextPage ? "Scroll for more." : "End of the list."}
    />
  );
}

function CallCell({ call }: { call: Call }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={call.tool} line={80} className="font-semibold" />
      </span>
      <span className="block truncate text-sm text-quiet">
        <Untrusted text={argumentsOf(call)} line={200} />
      </span>
    </>
  );
}

function CallPage({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["call", id], queryFn: ({ signal }) => client(GatewayService).getCall({ proposalId: id }, { signal }) });
  const call = query.data?.call;
  return (
    <Screen
      title={call === undefined ? "Call" : call.tool}
      command={palyra("calls", "show", id)}
      actions={
        <>
          <ScreenLink to="/calls">All calls</ScreenLink>
          {call !== undefined && call.state !== CallState.ENDED && (
            <ActionButton label="Cancel" title="Cancel this call?" confirmLabel="Cancel the call" announcement="The call is cancelled." variant="bad" needs="run.cancel" reason="Reason (displayed to the requester)" keys={["calls", "call"]} run={(reason) => client(GatewayService).cancelCall({ proposalId: id, reason })}>
              <p>A running program is killed in its sandbox. Effects so far remain and are attested.</p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the call" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : call === undefined ? (
        <EmptyState title="Call not found" />
      ) : (
        <>
          {call.message !== "" && (
            <Notice tone={callStatus(call).tone === "bad" ? "bad" : "plain"}>
              <p>
                <Untrusted text={call.message} />
              </p>
              {call.remedy !== "" && (
                <p className="mt-1">
                  <Untrusted text={call.remedy} />
                </p>
              )}
              {call.reason !== "" && <code className="font-mono text-sm">{call.reason}</code>}
            </Notice>
          )}
          <KeyValue
            rows={[
              ["State", <Badge tone={callStatus(call).tone}>{callStatus(call).word}</Badge>],
              ["Principal", <Untrusted text={call.principal} />],
              ["On behalf of", call.onBehalfOf !== "" && <Untrusted text={call.onBehalfOf} />],
              ["Proposed", <Time at={call.proposedAt} full />],
              ["Ended", call.endedAt !== undefined && <Time at={call.endedAt} full />],
              ["Exit code", call.exitCode !== undefined && String(call.exitCode)],
              ["Session", call.session !== "" && <Id id={call.session} />],
              ["Run", call.run !== "" && call.run !== call.proposalId && <RunLink run={call.run} />],
              ["Approval", call.approvalId !== "" && <ScreenLink to={`/approvals/${call.approvalId}`}>{call.approvalId}</ScreenLink>],
              ["Grant", call.grantId !== "" && <Id id={call.grantId} keep={26} />],
              ["Decision", call.decisionId !== "" && <Decision id={call.decisionId} />],
              ["Attestation", call.attestationId !== "" && <Id id={call.attestationId} keep={26} />],
            ]}
          />
          <Section title="Arguments">
            <Json bytes={call.argumentsJson} />
          </Section>
          <Section title="Timeline">
            <Timeline steps={query.data.steps} />
          </Section>
          {call.attestationId !== "" && <Attestation id={call.attestationId} />}
        </>
      )}
    </Screen>
  );
}

function Decision({ id }: { id: string }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-3">
      <Id id={id} keep={26} />
      {useCan("policy.explain") && <ScreenLink to={`/policies?tab=explain&id=${id}`}>Explain</ScreenLink>}
    </span>
  );
}

/** The events of a call, in the order of the journal. */
export function Timeline({ steps }: { steps: readonly CallStep[] }) {
  return (
    <ol className="flex flex-col border-l-2 border-line">
      {steps.map((step) => (
        <li key={String(step.seq)} className="-ml-px flex flex-wrap items-baseline gap-x-3 gap-y-1 border-l-2 border-transparent py-1.5 pl-3">
          <span className="w-24 shrink-0 text-sm text-quiet">
            <Time at={step.at} />
          </span>
          <span className="min-w-0 flex-1">
            <Untrusted text={step.what} />
            {step.message !== "" && (
              <span className="block text-sm text-quiet">
                <Untrusted text={step.message} />
              </span>
            )}
            {step.reason !== "" && <code className="font-mono text-sm">{step.reason}</code>}
          </span>
          <span className="text-sm text-quiet">event {String(step.seq)}</span>
        </li>
      ))}
    </ol>
  );
}

/** The attestation of a call: its payload, and the command that verifies its signatures. */
function Attestation({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["attestation", id], staleTime: Infinity, queryFn: ({ signal }) => client(AttestationService).getAttestation({ id }, { signal }) });
  return (
    <Section title="Attestation">
      {query.isPending ? (
        <Loading what="the attestation" />
      ) : query.isError ? (
        <ErrorState error={query.error} />
      ) : (
        <>
          <p className="text-quiet">
            Signed, and recorded as event {String(query.data.journalSeq)} of the journal. Verify it independently of this page: <code className="font-mono">{palyra("attest", "verify", id)}</code>
          </p>
          <Json bytes={payloadOf(query.data.envelopeJson)} />
        </>
      )}
    </Section>
  );
}

// Returns the payload of a DSSE envelope, or the envelope itself if the payload cannot be decoded.
function payloadOf(envelope: Uint8Array): Uint8Array {
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(envelope));
    if (typeof parsed === "object" && parsed !== null && "payload" in parsed && typeof parsed.payload === "string") return base64(parsed.payload) ?? envelope;
  } catch {
    // Display the envelope unchanged.
  }
  return envelope;
}
