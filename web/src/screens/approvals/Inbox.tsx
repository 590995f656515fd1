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
import { exportFlags, exportOf, facets, flagsOf, oldestFirst, requestOf, matchesFilter } from "./facets";
import { emptyList, endedRowLifetime, reduce, rowsOf } from "./list";
import { headline, stateTones, states, nameOf } from "./words";

const pageSize = 200;

/** The list of approvals with its filter and the selection for a batch review. */
export function Inbox({ line, onLineChange, open }: { line: string; onLineChange: (line: string) => void; open: string }) {
  const filter = parseFilter(line, facets);
  return (
    <Screen title="Approvals" command={palyra("approvals", "list", ...flagsOf(filter))} actions={<ExportApprovals filter={filter} />} fill>
      <FilterBar screen="approvals" facets={facets} line={line} onChange={onLineChange} />
      <ApprovalTable key={line} line={line} onLineChange={onLineChange} open={open} />
    </Screen>
  );
}

function ExportApprovals({ filter }: { filter: Filter }) {
  return (
    <Export
      noun="approvals"
      needs="approval.export"
      description="Approvals with their votes, limited by the state and time of the filter; other terms are ignored. Without a state, all states are exported. The last line proves that the export is complete."
      command={(form) => palyra("approvals", "export", ...exportFlags(filter), "--format", form)}
      read={(form, signal) => client(ApprovalsService).exportApprovals({ ...exportOf(filter, gatewayNow()), format: exportForms[form].format }, { signal })}
    />
  );
}

/** The sort order. It is part of the filter, so that links and saved filters keep it. */
function SortOrder({ line, onLineChange }: { line: string; onLineChange: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const oldest = oldestFirst(filter);
  const reverse = () => onLineChange(formatFilter([...filter.terms.filter((term) => term.facet !== "order"), ...(oldest ? [] : [{ facet: "order", exclude: false, values: ["oldest"] }])]));
  useKeys([{ key: "r", description: "Reverse the order", run: reverse }]);
  return (
    <Button size="small" variant="bare" onClick={reverse} aria-label={oldest ? "Oldest first: reverse the order" : "Newest first: reverse the order"}>
      <span aria-hidden>{oldest ? "↑" : "↓"}</span> {oldest ? "Oldest first" : "Newest first"}
    </Button>
  );
}

function ApprovalTable({ line, onLineChange, open }: { line: string; onLineChange: (line: string) => void; open: string }) {
  const filter = parseFilter(line, facets);
  const [list, dispatch] = useReducer(reduce, emptyList);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [reviewing, setReviewing] = useState<readonly string[] | undefined>(undefined);
  const frame = useRef<HTMLDivElement>(null);
  const isHovered = useRef(false);

  const query = useInfiniteQuery({
    queryKey: ["approvals", line],
    queryFn: ({ pageParam, signal }) =>
      client(ApprovalsService).listApprovals({ ...requestOf(filter, gatewayNow()), pageSize, pageToken: pageParam, withCounts: pageParam === "" }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
    staleTime: Infinity,
    gcTime: 0,
    // Approvals are compared by version; a structural comparison of all pages is unnecessary.
    structuralSharing: false,
  });
  const pages = query.data?.pages;
  const loaded = useMemo(() => pages?.flatMap((page) => page.approvals) ?? [], [pages]);
  const ascending = oldestFirst(filter);
  const rows = useMemo(() => rowsOf(list, loaded, ascending), [list, loaded, ascending]);

  // Rows may move only if the list has no pointer, focus, scroll position or selection.
  const canMove = () => {
    const scroller = frame.current?.querySelector("[data-scroller]");
    const focused = frame.current?.contains(document.activeElement) === true;
    return !isHovered.current && !focused && (scroller?.scrollTop ?? 0) === 0 && selected.size === 0;
  };
  const receive = (approval: Approval) => {
    const last = loaded.at(-1)?.approvalId;
    const matches = matchesFilter(filter, approval, gatewayNow());
    const isNew = matches && approval.state === ApprovalState.PENDING && !rows.some((r) => r.approvalId === approval.approvalId) && !list.queued.some((r) => r.approvalId === approval.approvalId);
    dispatch({ type: "received", approval, matches, at: Date.now(), canMove: ascending || canMove(), loaded, isBelow: query.hasNextPage && last !== undefined && (ascending ? approval.approvalId > last : approval.approvalId < last) });
    if (isNew) announce(`New approval: ${oneLine(headline(approval), 120)}`);
  };
  // An ended approval displays its state for a while, then is removed as soon as rows may move.
  const removeEnded = useEffectEvent(() => {
    if (canMove()) dispatch({ type: "tidy", before: Date.now() - endedRowLifetime });
  });
  const hasEnded = list.endedAt.size > 0;
  useEffect(() => {
    if (!hasEnded) return;
    const timer = setInterval(() => removeEnded(), 1_000);
    return () => clearInterval(timer);
  }, [hasEnded]);
  // Events that arrive while the list is loading may be newer than the list. They are applied
  // after it is loaded. A list that was read before the start of the stream is read again.
  const early = useRef<{ approvals: Approval[]; again: boolean }>({ approvals: [], again: false });
  useLiveEvents((event) => {
    if (query.data === undefined) {
      if (event.kind === "reset") early.current.again = true;
      if (event.kind === "approval" && event.approval !== undefined) early.current.approvals.push(event.approval);
      return;
    }
    if (event.kind === "approval" && event.approval !== undefined) receive(event.approval);
  });
  const catchUp = useEffectEvent(() => {
    const { approvals, again } = early.current;
    early.current = { approvals: [], again: false };
    for (const approval of approvals) receive(approval);
    if (again) void query.refetch();
  });
  const isLoaded = query.data !== undefined;
  useEffect(() => {
    if (isLoaded) catchUp();
  }, [isLoaded]);

  const show = () => {
    dispatch({ type: "show" });
    frame.current?.querySelector("[data-scroller]")?.scrollTo({ top: 0 });
  };
  const turn = (id: string) =>
    setSelected((now) => {
      const next = new Set(now);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  useKeys([
    { key: "n", description: "Show the new approvals", run: show },
    {
      key: "x",
      description: "Select the row for a batch review",
      run: () => {
        const row = document.activeElement?.closest("[data-row]")?.getAttribute("data-row");
        if (row !== null && row !== undefined) turn(row);
      },
    },
  ]);

  // Only pending approvals can be decided.
  const review = selected.size === 0 ? [] : rows.filter((row) => row.state === ApprovalState.PENDING && selected.has(row.approvalId)).map((row) => row.approvalId);
  const newest = list.queued[0];
  const total = query.data?.pages[0]?.counts?.total;

  if (query.isPending) return <Loading what="approvals" />;
  if (query.isError && query.data === undefined) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  return (
    <>
      <div className="flex min-h-8 flex-wrap items-center gap-2 text-sm">
        <span className="text-quiet" aria-live="off">
          {rows.length.toLocaleString()} displayed{query.hasNextPage && total !== undefined && `, of ${Number(total).toLocaleString()} when the list was loaded`}
        </span>
        <SortOrder line={line} onLineChange={onLineChange} />
        {list.queued.length > 0 && (
          <Button size="small" variant="primary" onClick={show} className="max-w-full min-w-0">
            <span className="truncate">
              {list.queued.length} new: {oneLine(newest === undefined ? "" : headline(newest), 60)}
            </span>
          </Button>
        )}
        {selected.size > 0 && (
          <>
            <Button size="small" needs="approval.decide" disabledReason={review.length === 0 ? "None of them is still pending." : undefined} onClick={() => setReviewing(review)}>
              Review {review.length} one by one
            </Button>
            <Button size="small" variant="bare" onClick={() => setSelected(new Set())}>
              Clear selection
            </Button>
          </>
        )}
      </div>
      {rows.length === 0 ? (
        <EmptyState title={line === "" ? "No pending approvals" : "No approvals match the filter"}>
          {line === "" ? "New approvals appear here automatically." : "Remove a filter to see more."}
        </EmptyState>
      ) : (
        <div
          ref={frame}
          className="flex min-h-0 flex-1 flex-col"
          onPointerEnter={(event) => {
            if (event.pointerType === "mouse") isHovered.current = true;
          }}
          onPointerLeave={() => {
            isHovered.current = false;
          }}
        >
          <Table
            label="Approvals"
            rows={rows}
            rowKey={(row) => row.approvalId}
            rowHeight={68}
            href={(row) => `/approvals/${row.approvalId}${line === "" ? "" : `?q=${encodeURIComponent(line)}`}`}
            openKey={open}
            isDimmed={(row) => row.state !== ApprovalState.PENDING}
            leadCell={(row) => (
              <Checkbox
                hidden
                label={`Select ${oneLine(headline(row), 80)}`}
                checked={selected.has(row.approvalId)}
                disabled={row.state !== ApprovalState.PENDING}
                onChange={() => turn(row.approvalId)}
              />
            )}
            columns={[
              { id: "ask", label: "Approval", className: "grow", cell: (row) => <ApprovalCell approval={row} /> },
              { id: "left", label: "Time left", className: "w-24 text-right", cell: (row) => <TimeLeft approval={row} /> },
            ]}
            onEnd={() => {
              if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
            }}
            end={query.isFetchingNextPage ? "Loading more…" : query.hasNextPage ? "Scroll for more." : "End of the list."}
          />
        </div>
      )}
      {reviewing !== undefined && (
        <BatchReview
          ids={reviewing}
          onClose={() => {
            setReviewing(undefined);
            setSelected(new Set());
          }}
        />
      )}
    </>
  );
}

function ApprovalCell({ approval }: { approval: Approval }) {
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

function TimeLeft({ approval }: { approval: Approval }) {
  if (approval.state === ApprovalState.PENDING) return <Countdown until={approval.expiresAt} />;
  const state = nameOf(states, approval.state);
  return <Badge tone={stateTones[state] ?? "plain"}>{state}</Badge>;
}
