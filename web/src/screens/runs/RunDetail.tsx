import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client } from "../../api/transport";
import type { RunEvent } from "../../gen/palyra/v1/gateway_pb";
import { GatewayService, RunState } from "../../gen/palyra/v1/gateway_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink } from "../../shell/router";
import { palyra } from "../../text/cli";
import { formatCount } from "../../text/count";
import { durationMillis, formatDuration } from "../../text/time";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import type { Row } from "./tape";
import { MessageForm } from "./MessageForm";
import { appendEvents, outputOf, resultOf, stepsOf } from "./tape";
import { stateOf } from "./words";

/** A run with its live timeline of messages and calls. */
export function RunDetail({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["run", id], queryFn: ({ signal }) => client(GatewayService).getRun({ runId: id }, { signal }) });
  const run = query.data?.run;
  return (
    <Screen
      title={run === undefined ? "Run" : `Run ${id.slice(-6)}`}
      command={palyra("runs", "show", id)}
      actions={
        <>
          <ScreenLink to="/runs">All runs</ScreenLink>
          {run?.state === RunState.RUNNING && (
            <ActionButton label="Cancel" title="Cancel this run?" confirmLabel="Cancel the run" announcement="The run is cancelled." variant="bad" needs="run.cancel" reason="Reason (kept in the journal)" keys={["runs", "run"]} run={(reason) => client(GatewayService).cancelRun({ runId: id, reason })}>
              <p>Running calls are killed, and pending calls are cancelled.</p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the run" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : run === undefined ? (
        <EmptyState title="Run not found" />
      ) : (
        <>
          {run.detail !== "" && (
            <Notice tone={run.state === RunState.FAILED ? "bad" : "plain"}>
              <Untrusted text={run.detail} /> {run.remedy !== "" && <Untrusted text={run.remedy} />}
            </Notice>
          )}
          <KeyValue
            rows={[
              ["State", <Badge tone={stateOf(run.state).tone}>{stateOf(run.state).word}</Badge>],
              ["Principal", <Untrusted text={run.principal} />],
              ["Model", <Untrusted text={run.model} />],
              ["Workspace", run.workspace !== "" && <Untrusted text={run.workspace} />],
              ["Started", <Time at={run.startedAt} full />],
              ["Ended", run.endedAt !== undefined && <Time at={run.endedAt} full />],
              ["Used", run.usage !== undefined && `${formatCount(run.usage.calls, "call")}, ${formatCount(run.usage.turns, "turn")}, ${formatCount(run.usage.inputTokens + run.usage.outputTokens, "token")}, ${formatDuration(durationMillis(run.usage.wallClock))}`],
              ["Budget", run.budget !== undefined && `${formatCount(run.budget.calls, "call")}, ${formatCount(run.budget.tokens, "token")}, ${formatDuration(durationMillis(run.budget.wallClock))}`],
            ]}
          />
          <Tape id={id} />
          {run.state === RunState.RUNNING && <MessageForm id={id} interactive={run.interactive} />}
        </>
      )}
    </Screen>
  );
}

// The number of rows that are rendered at first; a run can have thousands.
const initialRows = 200;

function Tape({ id }: { id: string }) {
  const { rows, error, paused, setPaused, queued } = useTape(id);
  const [limit, setLimit] = useState(initialRows);
  const hiddenRows = Math.max(0, rows.length - limit);
  return (
    <Section
      title="Timeline"
      actions={
        <Button size="small" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? `Resume (${queued} new)` : "Pause"}
        </Button>
      }
    >
      {error !== undefined && <ErrorState error={error} />}
      {hiddenRows > 0 && (
        <Button size="small" onClick={() => setLimit(limit + initialRows)}>
          Show {Math.min(initialRows, hiddenRows)} of {hiddenRows} earlier events
        </Button>
      )}
      <ol className="flex flex-col gap-2">
        {rows.slice(hiddenRows).map((row) => (
          <li key={row.key}>
            <TapeRow row={row} />
          </li>
        ))}
      </ol>
    </Section>
  );
}

function TapeRow({ row }: { row: Row }) {
  if (row.kind === "call") return <CallRow row={row} />;
  const author = { model: "Model", user: "You", turn: "Model", retry: "Model request retried", start: "Task", end: "End" }[row.kind];
  return (
    <div className={row.kind === "user" || row.kind === "start" ? "rounded-lg border border-line bg-panel px-3 py-2" : "px-3 py-1"}>
      <p className="flex gap-2 text-sm text-quiet">
        <span className="font-semibold">{author}</span>
        <Time at={row.at} />
      </p>
      <p className="whitespace-pre-wrap">
        <Untrusted text={row.text} />
      </p>
    </div>
  );
}

function CallRow({ row }: { row: Row }) {
  const [open, setOpen] = useState(false);
  const output = outputOf(row);
  const result = resultOf(row);
  return (
    <div className="rounded-lg border border-line px-3 py-2">
      <div className="flex flex-wrap items-center gap-2">
        <ScreenLink to={`/calls/${row.proposal}`}>
          <Untrusted text={row.text || "call"} line={80} className="font-semibold" />
        </ScreenLink>
        {stepsOf(row).map((step, i) => (
          // The index is the only identity of a step.
          <Badge key={i} tone={step.tone}>
            {step.approval === undefined || step.approval === "" ? step.word : <ScreenLink to={`/approvals/${step.approval}`}>{step.word}</ScreenLink>}
          </Badge>
        ))}
        {(output !== "" || result.length > 0) && (
          <Button size="small" variant="bare" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Hide the result" : "Show the result"}
          </Button>
        )}
      </div>
      {open && output !== "" && <Untrusted block text={output} />}
      {open && result.length > 0 && <Json bytes={result} />}
    </div>
  );
}

/** Follows the tape of a run, and resumes after the last event if the stream breaks. */
function useTape(id: string) {
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [held, setQueued] = useState<readonly RunEvent[]>([]);
  const [paused, setPaused] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    let after = 0n;
    let received: RunEvent[] = [];
    let frame = 0;
    const flush = () => {
      frame = 0;
      const events = received;
      received = [];
      setQueued((now) => [...now, ...events]);
    };
    const follow = async () => {
      for (let tries = 0; !stop.signal.aborted; tries++) {
        try {
          for await (const { event } of client(GatewayService).watchRun({ runId: id, after }, { signal: stop.signal })) {
            if (event === undefined) continue;
            after = event.sequence;
            tries = 0;
            setError(undefined);
            received.push(event);
            // Render all events of a frame together.
            if (frame === 0) frame = requestAnimationFrame(flush);
          }
          return;
        } catch (thrown) {
          setError(thrown);
          await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 500 * 2 ** tries)));
        }
      }
    };
    void follow();
    return () => {
      stop.abort();
      cancelAnimationFrame(frame);
    };
  }, [id]);
  const canApply = !paused && held.length > 0;
  if (canApply) {
    setRows(appendEvents(rows, held));
    setQueued([]);
  }
  return { rows, error, paused, setPaused, queued: held.length };
}
