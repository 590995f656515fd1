import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client } from "../../api/transport";
import type { RunEvent } from "../../gen/palyra/v1/gateway_pb";
import { GatewayService, RunState } from "../../gen/palyra/v1/gateway_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink } from "../../shell/router";
import { palyra } from "../../text/cli";
import { counted } from "../../text/count";
import { durationMs, length } from "../../text/time";
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import type { Row } from "./tape";
import { Talk } from "./Talk";
import { extend, outputOf, resultOf, stepsOf } from "./tape";
import { stateOf } from "./words";

/** One run: what was said, and a timeline of each call, as it happens. */
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
            <Act label="Cancel" title="Cancel this run?" does="Cancel the run" said="The run is cancelled." look="bad" needs="run.cancel" reason="Reason (kept in the journal)" keys={["runs", "run"]} run={(reason) => client(GatewayService).cancelRun({ runId: id, reason })}>
              <p>Its calls that run are killed, and those that wait are cancelled.</p>
            </Act>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the run" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : run === undefined ? (
        <EmptyState title="There is no such run" />
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
              ["Who", <Untrusted text={run.principal} />],
              ["Model", <Untrusted text={run.model} />],
              ["Workspace", run.workspace !== "" && <Untrusted text={run.workspace} />],
              ["Started", <Time at={run.startedAt} full />],
              ["Ended", run.endedAt !== undefined && <Time at={run.endedAt} full />],
              ["Used", run.usage !== undefined && `${counted(run.usage.calls, "call")}, ${counted(run.usage.turns, "turn")}, ${counted(run.usage.inputTokens + run.usage.outputTokens, "token")}, ${length(durationMs(run.usage.wallClock))}`],
              ["At most", run.budget !== undefined && `${counted(run.budget.calls, "call")}, ${counted(run.budget.tokens, "token")}, ${length(durationMs(run.budget.wallClock))}`],
            ]}
          />
          <Tape id={id} />
          {run.state === RunState.RUNNING && <Talk id={id} interactive={run.interactive} />}
        </>
      )}
    </Screen>
  );
}

// So many rows of a tape are laid out; a run can have thousands.
const shown = 200;

function Tape({ id }: { id: string }) {
  const { rows, error, paused, setPaused, held } = useTape(id);
  const [most, setMost] = useState(shown);
  const left = Math.max(0, rows.length - most);
  return (
    <Section
      title="Timeline"
      actions={
        <Button size="small" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? `Go on (${held} new)` : "Pause"}
        </Button>
      }
    >
      {error !== undefined && <ErrorState error={error} />}
      {left > 0 && (
        <Button size="small" onClick={() => setMost(most + shown)}>
          Show {Math.min(shown, left)} of {left} that came before
        </Button>
      )}
      <ol className="flex flex-col gap-2">
        {rows.slice(left).map((row) => (
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
  const who = { said: "Model", user: "You", turn: "Model", retry: "The model is asked again", start: "Asked for", end: "End" }[row.kind];
  return (
    <div className={row.kind === "user" || row.kind === "start" ? "rounded-lg border border-line bg-panel px-3 py-2" : "px-3 py-1"}>
      <p className="flex gap-2 text-sm text-quiet">
        <span className="font-semibold">{who}</span>
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
          // The steps of one call have no other identity than their place.
          <Badge key={i} tone={step.tone}>
            {step.approval === undefined || step.approval === "" ? step.word : <ScreenLink to={`/approvals/${step.approval}`}>{step.word}</ScreenLink>}
          </Badge>
        ))}
        {(output !== "" || result.length > 0) && (
          <Button size="small" look="bare" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Hide the result" : "Show the result"}
          </Button>
        )}
      </div>
      {open && output !== "" && <Untrusted block text={output} />}
      {open && result.length > 0 && <Json bytes={result} />}
    </div>
  );
}

/** Follows a run's tape, and goes on where it stopped when the stream breaks. */
function useTape(id: string) {
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [held, setHeld] = useState<readonly RunEvent[]>([]);
  const [paused, setPaused] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    let after = 0n;
    let waits: RunEvent[] = [];
    let frame = 0;
    const flush = () => {
      frame = 0;
      const events = waits;
      waits = [];
      setHeld((now) => [...now, ...events]);
    };
    const follow = async () => {
      for (let tries = 0; !stop.signal.aborted; tries++) {
        try {
          for await (const { event } of client(GatewayService).watchRun({ runId: id, after }, { signal: stop.signal })) {
            if (event === undefined) continue;
            after = event.sequence;
            tries = 0;
            setError(undefined);
            waits.push(event);
            // One picture for all events of a frame.
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
  const ready = !paused && held.length > 0;
  if (ready) {
    setRows(extend(rows, held));
    setHeld([]);
  }
  return { rows, error, paused, setPaused, held: held.length };
}
