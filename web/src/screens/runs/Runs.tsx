import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { useFeature } from "../../api/whoami";
import type { Run } from "../../gen/palyra/v1/gateway_pb";
import { GatewayService } from "../../gen/palyra/v1/gateway_pb";
import { StatusService } from "../../gen/palyra/v1/status_pb";
import { Screen } from "../../shell/Screen";
import { useGo, useParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Checkbox, Select, TextArea } from "../../ui/Field";
import { Meta } from "../../ui/Meta";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { RunDetail } from "./RunDetail";
import { stateOf } from "./words";

/** The runs of the gateway's model loop. */
export default function Runs() {
  const id = useParam("id");
  return id === "" ? <RunsPage /> : <RunDetail key={id} id={id} />;
}

function RunsPage() {
  const [isStarting, setIsStarting] = useState(false);
  const models = useFeature("models");
  const query = useInfiniteQuery({
    queryKey: ["runs"],
    queryFn: ({ pageParam, signal }) => client(GatewayService).listRuns({ pageSize: 200, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.runs) ?? [];
  return (
    <Screen
      title="Runs"
      command={palyra("runs", "list")}
      fill
      actions={
        <Button size="small" variant="primary" needs="run.start" disabledReason={models ? undefined : "This gateway has no model: configure one under [[models]]."} onClick={() => setIsStarting(true)}>
          Start a run
        </Button>
      }
    >
      {query.isPending ? (
        <Loading what="runs" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No runs yet">In a run, a model uses the tools of this gateway. Calls of your own agents are under Calls.</EmptyState>
      ) : (
        <Table
          label="Runs"
          rows={rows}
          rowKey={(run) => run.runId}
          rowHeight={60}
          href={(run) => `/runs/${run.runId}`}
          columns={[
            { id: "what", label: "Run", className: "grow", cell: (run) => <RunCell run={run} /> },
            { id: "calls", label: "Calls", className: "w-16 text-right max-sm:hidden", cell: (run) => run.usage?.calls ?? 0 },
            { id: "state", label: "State", className: "w-28", cell: (run) => <Badge tone={stateOf(run.state).tone}>{stateOf(run.state).word}</Badge> },
            { id: "at", label: "Started", className: "w-24 text-right", cell: (run) => <Time at={run.startedAt} /> },
          ]}
          onEnd={() => {
            if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
          }}
          end={query.hasNextPage ? "Scroll for more." : "End of the list."}
        />
      )}
      {isStarting && <StartDialog onClose={() => setIsStarting(false)} />}
    </Screen>
  );
}

function RunCell({ run }: { run: Run }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={run.message} line={200} className="font-semibold" />
      </span>
      <Meta>
        <Untrusted text={run.principal} line={60} />
        <Untrusted text={run.model} line={60} />
      </Meta>
    </>
  );
}

function StartDialog({ onClose }: { onClose: () => void }) {
  const [message, setMessage] = useState("");
  const [model, setModel] = useState("");
  const [interactive, setInteractive] = useState(false);
  const go = useGo();
  const queries = useQueryClient();
  const status = useQuery({ queryKey: ["status"], queryFn: ({ signal }) => client(StatusService).getStatus({}, { signal }) });
  const start = useMutation({
    // The idempotency key prevents a second run if the request is repeated after a lost response.
    mutationFn: (key: string) => client(GatewayService).startRun({ message, model, interactive, idempotencyKey: key }),
    onSuccess: ({ run }) => {
      void queries.invalidateQueries({ queryKey: ["runs"] });
      if (run !== undefined) go(`/runs/${run.runId}`);
    },
  });
  const [key] = useState(() => crypto.randomUUID());
  const models = status.data?.models ?? [];
  return (
    <Dialog open onClose={onClose} title="Start a run">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (message.trim() !== "" && !start.isPending) start.mutate(key);
        }}
      >
        <TextArea label="Task" rows={5} value={message} onChange={(event) => setMessage(event.target.value)} />
        <Select label="Model" value={model} onChange={(event) => setModel(event.target.value)} options={[{ value: "", label: "Default" }, ...models.map((m) => ({ value: m.name, label: m.available ? m.name : `${m.name} (unavailable)` }))]} />
        <Checkbox label="Wait for further messages after the model's turn" checked={interactive} onChange={(event) => setInteractive(event.target.checked)} />
        {start.isError && <ErrorState error={start.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" disabledReason={message.trim() === "" ? "Enter a task." : start.isPending ? "In progress." : undefined}>
            Start the run
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

