import { useVirtualizer, defaultRangeExtractor } from "@tanstack/react-virtual";
import type { ReactNode } from "react";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { useKeys } from "../shell/keys";
import { ScreenLink, useGo } from "../shell/router";
import { cx } from "./cx";

export interface Column<Row> {
  id: string;
  label: string;
  /** The width and the visibility: "w-32 max-md:hidden". One column has "grow". */
  className: string;
  cell: (row: Row) => ReactNode;
}

// Below this width a row has two lines: the main column, and the other columns.
const wideEnough = 480;
const extraLineHeight = 28;

/**
 * A virtualised table with rows of equal height. j, k and the arrow keys move, Enter opens.
 * The focused row stays rendered while the user scrolls.
 */
export function Table<Row>({ label, rows, columns, rowKey, href, rowHeight = 44, end, onEnd, isDimmed, leadCell, openKey }: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  /** The target of a row; its "grow" cell is the link. */
  href?: (row: Row) => string;
  rowHeight?: number;
  /** The content below the last row: loading, or the end of the list. */
  end?: ReactNode;
  /** Called when the last rows become visible. */
  onEnd?: () => void;
  /** Whether a row needs no further action. */
  isDimmed?: (row: Row) => boolean;
  /** The key of the row whose detail is open. */
  openKey?: string;
  /** The first cell, with its own control: a checkbox. */
  leadCell?: (row: Row) => ReactNode;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<string | undefined>(undefined);
  const [narrow, setNarrow] = useState(false);
  const go = useGo();
  const at = current === undefined ? -1 : rows.findIndex((row) => rowKey(row) === current);
  // eslint-disable-next-line react-hooks/incompatible-library -- only this component uses the virtualizer
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight + (narrow ? extraLineHeight : 0),
    overscan: 8,
    getItemKey: (i) => {
      const row = rows[i];
      return row === undefined ? i : rowKey(row);
    },
    rangeExtractor: (range) => {
      const visibleRows = defaultRangeExtractor(range);
      return at < 0 || at >= rows.length || visibleRows.includes(at) ? visibleRows : [...visibleRows, at].sort((a, b) => a - b);
    },
  });
  useEffect(() => {
    if (scroller.current === null) return;
    const watch = new ResizeObserver(([entry]) => setNarrow((entry?.contentRect.width ?? wideEnough) < wideEnough));
    watch.observe(scroller.current);
    return () => watch.disconnect();
  }, []);
  const measure = useEffectEvent(() => virtual.measure());
  useEffect(() => measure(), [narrow, rowHeight]);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const onReached = useEffectEvent(() => onEnd?.());
  const isNearEnd = rows.length > 0 && last >= rows.length - 20;
  useEffect(() => {
    if (isNearEnd) onReached();
  }, [isNearEnd, rows.length]);

  const move = (by: number) => {
    const next = Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by));
    const row = rows[next];
    if (row === undefined) return;
    setCurrent(rowKey(row));
    virtual.scrollToIndex(next);
    const focusRow = () => {
      const link = scroller.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(rowKey(row))}"] [data-main]`);
      link?.focus();
      return Boolean(link);
    };
    // A rendered row gets the focus at once, so that Enter right after j opens it. Others are rendered first.
    if (!focusRow()) requestAnimationFrame(focusRow);
  };
  useKeys([
    { key: "j", description: "Next row", run: () => move(1) },
    { key: "k", description: "Previous row", run: () => move(-1) },
    { key: "↓ ↑", description: "Next or previous row, if a row has the focus" },
    ...(href === undefined
      ? []
      : [
          {
            key: "o",
            description: "Open the row",
            run: () => {
              const row = rows[at];
              if (row !== undefined) go(href(row));
            },
          },
          { key: "Enter", description: "Open the focused row" },
        ]),
  ]);

  const main = columns.findIndex((column) => /(^|\s)grow(\s|$)/.test(column.className));
  return (
    <div
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      className="flex min-h-0 flex-1 flex-col overflow-hidden rounded-lg border border-line"
      onKeyDown={(event) => {
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        if (!(event.target instanceof HTMLElement) || !event.target.hasAttribute("data-main")) return;
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      }}
    >
      <div role="rowgroup" className={narrow ? "sr-only" : "border-b border-line bg-panel"}>
        <div role="row" aria-rowindex={1} className="flex items-center gap-3 px-3 py-1.5 text-sm text-quiet">
          {leadCell !== undefined && (
            <span role="columnheader" className="w-6 shrink-0">
              <span className="sr-only">Selected</span>
            </span>
          )}
          {columns.map((column) => (
            <span key={column.id} role="columnheader" className={cx("min-w-0 truncate", column.className.includes("grow") || "shrink-0", column.className)}>
              {column.label}
            </span>
          ))}
        </div>
      </div>
      <div ref={scroller} data-scroller="" role="rowgroup" tabIndex={rows.length === 0 ? -1 : 0} aria-label={`${label}, scrolling`} className="min-h-0 flex-1 overflow-y-auto">
        <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            const key = rowKey(row);
            return (
              <div
                key={item.key}
                role="row"
                aria-rowindex={item.index + 2}
                {...(key === openKey ? { "aria-current": true as const } : {})}
                data-row={key}
                onFocus={() => setCurrent(key)}
                style={{ height: item.size, transform: `translateY(${item.start}px)` }}
                className={cx(
                  "absolute inset-x-0 top-0 flex items-center border-b border-line px-3",
                  narrow ? "flex-wrap content-center gap-x-3 gap-y-0.5" : "gap-3",
                  narrow && leadCell !== undefined && "pl-11",
                  key === openKey ? "bg-hot" : key === current ? "bg-sunk" : "hover:bg-panel",
                  isDimmed?.(row) === true && "text-quiet",
                )}
              >
                {leadCell !== undefined && (
                  <span role="cell" className={narrow ? "absolute top-3 left-3" : "w-6 shrink-0"}>
                    {leadCell(row)}
                  </span>
                )}
                {columns.map((column, i) => (
                  <span key={column.id} role="cell" className={cx("min-w-0 overflow-hidden", i === main || "shrink-0", column.className, narrow && (i === main ? "order-first basis-full" : "w-auto! text-left! text-sm"))}>
                    {i === main && href !== undefined ? (
                      <ScreenLink to={href(row)} data-main="" className="block truncate rounded-sm text-inherit no-underline hover:underline">
                        {column.cell(row)}
                      </ScreenLink>
                    ) : (
                      column.cell(row)
                    )}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
        {end !== undefined && <div className="px-3 py-2 text-sm text-quiet">{end}</div>}
      </div>
    </div>
  );
}
