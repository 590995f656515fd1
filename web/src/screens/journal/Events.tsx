import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { client } from "../../api/transport";
import type { Event } from "../../gen/palyra/v1/journal_pb";
import { JournalService } from "../../gen/palyra/v1/journal_pb";
import { StatusService } from "../../gen/palyra/v1/status_pb";
import { gatewayNow } from "../../ui/clock";
import { Button } from "../../ui/Button";
import type { Filter } from "../../ui/filter";
import { parseFilter } from "../../ui/filter";
import { FilterBar } from "../../ui/FilterBar";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { crowded, eventFilter, facets } from "./filter";

const page = 200;
const most = 1000;

/** The events of a filter, the newest first, with those that come as they come. */
export function Events({ line, onLine }: { line: string; onLine: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const several = crowded(filter);
  return (
    <div className="flex flex-col gap-3">
      <FilterBar screen="journal" facets={facets} line={line} onChange={onLine} />
      {several.length > 0 ? <Notice tone="warn">The journal is asked for one value of each: {several.join(", ")} has more.</Notice> : <Listed key={line} filter={filter} line={line} />}
    </div>
  );
}

function Listed({ filter, line }: { filter: Filter; line: string }) {
  const queries = useQueryClient();
  // What was there when the page was opened stands still; what came since is asked for
  // again as the journal grows. The head's key is none that an event makes out of date.
  const head = useQuery({
    queryKey: ["journal-head"],
    staleTime: Infinity,
    queryFn: async ({ signal }) => Number((await client(StatusService).getStatus({}, { signal })).journalSize),
  });
  const from = head.data;
  const older = useInfiniteQuery({
    queryKey: ["journal-before", line, from],
    enabled: from !== undefined,
    staleTime: Infinity,
    // Events never change: to compare all pages at each new one would be for nothing.
    structuralSharing: false,
    queryFn: ({ pageParam, signal }) => client(JournalService).listEvents({ filter: eventFilter(filter, gatewayNow()), newestFirst: true, before: pageParam, pageSize: page }, { signal }),
    initialPageParam: BigInt(from ?? 0) + 1n,
    getNextPageParam: (last) => (last.nextBefore === 0n ? undefined : last.nextBefore),
  });
  const newer = useQuery({
    queryKey: ["journal", "since", line, from],
    enabled: from !== undefined,
    structuralSharing: false,
    queryFn: ({ signal }) => client(JournalService).listEvents({ filter: eventFilter(filter, gatewayNow()), after: BigInt(from ?? 0), pageSize: most }, { signal }),
  });
  const failed = head.error ?? older.error ?? newer.error;
  const pages = older.data?.pages;
  const fresh = newer.data?.events;
  const rows = useMemo(() => [...[...(fresh ?? [])].reverse(), ...(pages ?? []).flatMap((each) => each.events)], [fresh, pages]);
  if (failed !== null) return <ErrorState error={failed} retry={() => void queries.invalidateQueries({ queryKey: ["journal-head"] })} />;
  if (pages === undefined) return <Loading what="the journal" />;
  const behind = newer.data !== undefined && newer.data.nextAfter !== 0n;
  return (
    <>
      {behind && (
        <Notice tone="warn">
          <div className="flex flex-wrap items-center gap-3">
            <span>More came since this page was opened than it shows.</span>
            <Button size="small" onClick={() => void queries.resetQueries({ queryKey: ["journal-head"] })}>
              Show the newest
            </Button>
          </div>
        </Notice>
      )}
      {rows.length === 0 ? (
        <EmptyState title="No event is so">{line === "" ? "The journal is empty." : "Change the filter."}</EmptyState>
      ) : (
        <div className="flex h-[calc(100dvh-16rem)] min-h-80 flex-col">
          <Table
            label="Events of the journal"
            rows={rows}
            rowKey={(event) => String(event.seq)}
            rowHeight={40}
            href={(event) => `/journal/${event.seq}`}
            columns={[
              { id: "seq", label: "Number", className: "w-20 text-right tabular-nums max-sm:hidden", cell: (event) => String(event.seq) },
              { id: "code", label: "Code", className: "w-24", cell: (event) => <code className="font-mono text-sm">{event.code}</code> },
              { id: "what", label: "What it says", className: "grow", cell: (event) => <Untrusted text={payloadLine(event)} line={200} /> },
              { id: "actor", label: "Actor", className: "w-40 max-md:hidden", cell: (event) => <Untrusted text={event.actor} line={40} /> },
              { id: "at", label: "When", className: "w-24 text-right", cell: (event) => <Time at={event.at} /> },
            ]}
            onEnd={() => {
              if (older.hasNextPage && !older.isFetchingNextPage) void older.fetchNextPage();
            }}
            end={older.hasNextPage ? "More follow." : "The beginning of the journal."}
          />
        </div>
      )}
    </>
  );
}

const decoder = new TextDecoder();

// Of a payload, which may be a megabyte, what fits on a line.
function payloadLine(event: Event): string {
  const text = decoder.decode(event.payloadJson.subarray(0, 1000));
  return text === "" || text === "{}" ? event.subject || "(nothing)" : text;
}
