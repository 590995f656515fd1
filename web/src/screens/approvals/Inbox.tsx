import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useMemo, useReducer, useRef, useState } from "react";
import { client } from "../../api/transport";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalState, ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { useLiveEvents } from "../../live/context";
import { announce } from "../../shell/announce";
import { useKeys } from "../../shell/keys";
import { Screen } from "../../shell/Screen";
import { palyra } from "../../text/cli";
import { oneLine } from "../../text/visible";
import { Badge, Severity } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { gatewayNow } from "../../ui/clock";
import { Checkbox } from "../../ui/Field";
import { FilterBar } from "../../ui/FilterBar";
import { Export } from "../../ui/Export";
import type { Filter } from "../../ui/filter";
import { formatFilter, parseFilter } from "../../ui/filter";
import { Meta } from "../../ui/Meta";
import { exportForms } from "../../ui/save";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { BatchReview } from "./BatchReview";
import { exportFlags, exportOf, facets, flagsOf, oldestFirst, requestOf, shows } from "./facets";
import { emptyList, linger, reduce, rowsOf } from "./list";
import { headline, stateTones, states, word } from "./words";

const pageSize = 200;

/** What waits for people: the list, its filter, and the choice of several. */
export function Inbox({ line, onLine, open }: { line: string; onLine: (line: string) => void; open: string }) {
  const filter = parseFilter(line, facets);
  return (
    <Screen title="Approvals" command={palyra("approvals", "list", ...flagsOf(filter))} actions={<ExportApprovals filter={filter} />} fill>
      <FilterBar screen="approvals" facets={facets} line={line} onChange={onLine} />
      <Asks key={line} line={line} onLine={onLine} open={open} />
    </Screen>
  );
}

function ExportApprovals({ filter }: { filter: Filter }) {
  return (
    <Export
      what="approvals"
      needs="approval.export"
      says="Approvals of the states and the time that the filter names, of all states where it names none, with their votes. Its other parts do not count. The last line proves that nothing is missing."
      command={(form) => palyra("approvals", "export", ...exportFlags(filter), "--format", form)}
      read={(form, signal) => client(ApprovalsService).exportApprovals({ ...exportOf(filter, gatewayNow()), format: exportForms[form].format }, { signal })}
    />
  );
}

/** Which end of the list is above; it is a part of the filter, so that links and saved filters keep it. */
function Order({ line, onLine }: { line: string; onLine: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const oldest = oldestFirst(filter);
  const turn = () => onLine(formatFilter([...filter.terms.filter((term) => term.facet !== "order"), ...(oldest ? [] : [{ facet: "order", exclude: false, values: ["oldest"] }])]));
  useKeys([{ key: "r", says: "Turn the order round", run: turn }]);
  return (
    <Button size="small" look="bare" onClick={turn} aria-label={oldest ? "Oldest first: turn round" : "Newest first: turn round"}>
      <span aria-hidden>{oldest ? "↑" : "↓"}</span> {oldest ? "Oldest first" : "Newest first"}
    </Button>
  );
}

function Asks({ line, onLine, open }: { line: string; onLine: (line: string) => void; open: string }) {
  const filter = parseFilter(line, facets);
  const [list, act] = useReducer(reduce, emptyList);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [reviewing, setReviewing] = useState<readonly string[] | undefined>(undefined);
  const frame = useRef<HTMLDivElement>(null);
  const hovered = useRef(false);

  const query = useInfiniteQuery({
    queryKey: ["approvals", line],
    queryFn: ({ pageParam, signal }) =>
      client(ApprovalsService).listApprovals({ ...requestOf(filter, gatewayNow()), pageSize, pageToken: pageParam, withCounts: pageParam === "" }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
    staleTime: Infinity,
    gcTime: 0,
    // The list knows each ask by its version: to compare all pages at each new one would
    // be for nothing.
    structuralSharing: false,
  });
  const pages = query.data?.pages;
  const listed = useMemo(() => pages?.flatMap((page) => page.approvals) ?? [], [pages]);
  const upwards = oldestFirst(filter);
  const rows = useMemo(() => rowsOf(list, listed, upwards), [list, listed, upwards]);

  // Below the last row nothing moves. Else rows move only where nobody has pointer, focus or scroll position to lose.
  const free = () => {
    const scroller = frame.current?.querySelector("[data-scroller]");
    const focused = frame.current?.contains(document.activeElement) === true;
    return !hovered.current && !focused && (scroller?.scrollTop ?? 0) === 0 && chosen.size === 0;
  };
  const hear = (approval: Approval) => {
    const last = listed.at(-1)?.approvalId;
    const passes = shows(filter, approval, gatewayNow());
    const isNew = passes && approval.state === ApprovalState.PENDING && !rows.some((r) => r.approvalId === approval.approvalId) && !list.held.some((r) => r.approvalId === approval.approvalId);
    act({ type: "told", approval, passes, at: Date.now(), free: upwards || free(), listed, below: query.hasNextPage && last !== undefined && (upwards ? approval.approvalId > last : approval.approvalId < last) });
    if (isNew) announce(`New ask: ${oneLine(headline(approval), 120)}`);
  };
  // What ended shows how for a while, then leaves as soon as rows may move.
  const tidy = useEffectEvent(() => {
    if (free()) act({ type: "tidy", before: Date.now() - linger });
  });
  const ending = list.ended.size > 0;
  useEffect(() => {
    if (!ending) return;
    const timer = setInterval(() => tidy(), 1_000);
    return () => clearInterval(timer);
  }, [ending]);
  // What the stream says while the list is on its way may be newer than the list: it is
  // heard once the list is there. A list that was read before the stream began is read again.
  const early = useRef<{ approvals: Approval[]; again: boolean }>({ approvals: [], again: false });
  useLiveEvents((event) => {
    if (query.data === undefined) {
      if (event.kind === "reset") early.current.again = true;
      if (event.kind === "approval" && event.approval !== undefined) early.current.approvals.push(event.approval);
      return;
    }
    if (event.kind === "approval" && event.approval !== undefined) hear(event.approval);
  });
  const catchUp = useEffectEvent(() => {
    const { approvals, again } = early.current;
    early.current = { approvals: [], again: false };
    for (const approval of approvals) hear(approval);
    if (again) void query.refetch();
  });
  const loaded = query.data !== undefined;
  useEffect(() => {
    if (loaded) catchUp();
  }, [loaded]);

  const show = () => {
    act({ type: "show" });
    frame.current?.querySelector("[data-scroller]")?.scrollTo({ top: 0 });
  };
  const turn = (id: string) =>
    setChosen((now) => {
      const next = new Set(now);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  useKeys([
    { key: "n", says: "Show the new asks", run: show },
    {
      key: "x",
      says: "Choose the row for a review of several",
      run: () => {
        const row = document.activeElement?.closest("[data-row]")?.getAttribute("data-row");
        if (row !== null && row !== undefined) turn(row);
      },
    },
  ]);

  // Only what waits can be decided.
  const review = chosen.size === 0 ? [] : rows.filter((row) => row.state === ApprovalState.PENDING && chosen.has(row.approvalId)).map((row) => row.approvalId);
  const newest = list.held[0];
  const total = query.data?.pages[0]?.counts?.total;

  if (query.isPending) return <Loading what="approvals" />;
  if (query.isError && query.data === undefined) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <>
      <div className="flex min-h-8 flex-wrap items-center gap-2 text-sm">
        <span className="text-quiet" aria-live="off">
          {rows.length.toLocaleString()} shown{query.hasNextPage && total !== undefined && `, of ${Number(total).toLocaleString()} when the list was loaded`}
        </span>
        <Order line={line} onLine={onLine} />
        {list.held.length > 0 && (
          <Button size="small" look="primary" onClick={show} className="max-w-full min-w-0">
            <span className="truncate">
              {list.held.length} new: {oneLine(newest === undefined ? "" : headline(newest), 60)}
            </span>
          </Button>
        )}
        {chosen.size > 0 && (
          <>
            <Button size="small" needs="approval.decide" off={review.length === 0 ? "None of them waits any more." : undefined} onClick={() => setReviewing(review)}>
              Review {review.length} one by one
            </Button>
            <Button size="small" look="bare" onClick={() => setChosen(new Set())}>
              Choose none
            </Button>
          </>
        )}
      </div>
      {rows.length === 0 ? (
        <EmptyState title={line === "" ? "Nothing waits for you" : "Nothing matches the filter"}>
          {line === "" ? "An ask shows here the moment it is made." : "Take a filter away to see more."}
        </EmptyState>
      ) : (
        <div
          ref={frame}
          className="flex min-h-0 flex-1 flex-col"
          onPointerEnter={(event) => {
            if (event.pointerType === "mouse") hovered.current = true;
          }}
          onPointerLeave={() => {
            hovered.current = false;
          }}
        >
          <Table
            label="Approvals"
            rows={rows}
            rowKey={(row) => row.approvalId}
            rowHeight={68}
            href={(row) => `/approvals/${row.approvalId}${line === "" ? "" : `?q=${encodeURIComponent(line)}`}`}
            marked={open}
            dim={(row) => row.state !== ApprovalState.PENDING}
            lead={(row) => (
              <Checkbox
                hidden
                label={`Choose ${oneLine(headline(row), 80)}`}
                checked={chosen.has(row.approvalId)}
                disabled={row.state !== ApprovalState.PENDING}
                onChange={() => turn(row.approvalId)}
              />
            )}
            columns={[
              { id: "ask", label: "Ask", className: "grow", cell: (row) => <Ask approval={row} /> },
              { id: "left", label: "Left", className: "w-24 text-right", cell: (row) => <Left approval={row} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.isFetchingNextPage ? "Loading more…" : query.hasNextPage ? "More follow." : "No more."}
          />
        </div>
      )}
      {reviewing !== undefined && (
        <BatchReview
          ids={reviewing}
          onClose={() => {
            setReviewing(undefined);
            setChosen(new Set());
          }}
        />
      )}
    </>
  );
}

function Ask({ approval }: { approval: Approval }) {
  return (
    <>
      <span className="flex items-center gap-2">
        <Severity level={approval.severity} />
        <Untrusted text={headline(approval)} line={160} className="truncate font-semibold" />
      </span>
      <Meta>
        <Untrusted text={approval.requestedBy} line={60} />
        <Untrusted text={approval.prompt?.tool ?? ""} line={60} />
        <Time at={approval.createdAt} />
      </Meta>
    </>
  );
}

function Left({ approval }: { approval: Approval }) {
  if (approval.state === ApprovalState.PENDING) return <Countdown until={approval.expiresAt} />;
  const state = word(states, approval.state);
  return <Badge tone={stateTones[state] ?? "plain"}>{state}</Badge>;
}
