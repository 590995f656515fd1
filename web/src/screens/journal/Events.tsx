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
import { multiValuedFacets, eventFilter, facets } from "./filter";

const pageSize = 200;
const maxNewEvents = 1000;

/** The events that match a filter, newest first, with live updates. */
export function Events({ line, onLineChange }: { line: string; onLineChange: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const multiValued = multiValuedFacets(filter);
  return (
    <div className="flex flex-col gap-3">
      <FilterBar screen="journal" facets={facets} line={line} onChange={onLineChange} />
      {multiValued.length > 0 ? <Notice tone="warn">The journal supports one value per field: remove values of {multiValued.join(", ")}.</Notice> : <EventTable key={line} filter={filter} line={line} />}
    </div>
  );
}

function EventTable({ filter, line }: { filter: Filter; line: string }) {
  const queries = useQueryClient();
  // The events from before the page was opened are loaded once; newer events are refetched as
  // the journal grows. No live event invalidates the key of the head.
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
    // Events never change, so a structural comparison of all pages is unnecessary.
    structuralSharing: false,
    queryFn: ({ pageParam, signal }) => client(JournalService).listEvents({ filter: eventFilter(filter, gatewayNow()), newestFirst: true, before: pageParam, pageSize: pageSize }, { signal }),
    initialPageParam: BigInt(from ?? 0) + 1n,
    getNextPageParam: (last) => (last.nextBefore === 0n ? undefined : last.nextBefore),
  });
  const newer = useQuery({
    queryKey: ["journal", "since", line, from],
    enabled: from !== undefined,
    structuralSharing: false,
    queryFn: ({ signal }) => client(JournalService).listEvents({ filter: eventFilter(filter, gatewayNow()), after: BigInt(from ?? 0), pageSize: maxNewEvents }, { signal }),
  });
  const failed = head.error ?? older.error ?? newer.error;
  const pages = older.data?.pages;
  const newEvents = newer.data?.events;
  const rows = useMemo(() => [...[...(newEvents ?? [])].reverse(), ...(pages ?? []).flatMap((each) => each.events)], [newEvents, pages]);
  if (failed !== null) return <ErrorState error={failed} retry={() => void queries.invalidateQueries({ queryKey: ["journal-head"] })} />;
  if (pages === undefined) return <Loading what="the journal" />;
  const isBehind = newer.data !== undefined && newer.data.nextAfter !== 0n;
  return (
    <>
      {isBehind && (
        <Notice tone="warn">
          <div className="flex flex-wrap items-center gap-3">
            <span>More events have arrived than this page displays.</span>
            <Button size="small" onClick={() => void queries.resetQueries({ queryKey: ["journal-head"] })}>
              Show the latest events
            </Button>
          </div>
        </Notice>
      )}
      {rows.length === 0 ? (
        <EmptyState title="No events">{line === "" ? "The journal is empty." : "No events match the filter."}</EmptyState>
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
              { id: "what", label: "Payload", className: "grow", cell: (event) => <Untrusted text={payloadLine(event)} line={200} /> },
              { id: "actor", label: "Actor", className: "w-40 max-md:hidden", cell: (event) => <Untrusted text={event.actor} line={40} /> },
              { id: "at", label: "When", className: "w-24 text-right", cell: (event) => <Time at={event.at} /> },
            ]}
            onEnd={() => {
              if (older.hasNextPage && !older.isFetchingNextPage) void older.fetchNextPage();
            }}
            end={older.hasNextPage ? "Scroll for more." : "Start of the journal."}
          />
        </div>
      )}
    </>
  );
}

const decoder = new TextDecoder();

// Returns the start of the payload, which can be a megabyte, as one line.
function payloadLine(event: Event): string {
  const text = decoder.decode(event.payloadJson.subarray(0, 1000));
  return text === "" || text === "{}" ? event.subject || "(empty)" : text;
}
