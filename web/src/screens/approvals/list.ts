// The state of the inbox: the listed approvals, the changes of the stream, and the new
// approvals that are queued so that rows do not move under the pointer.
import type { Approval } from "../../gen/palyra/v1/approvals_pb";

export interface List {
  /** New approvals that are displayed, newest first. */
  inserted: readonly Approval[];
  /** New approvals that are queued, newest first. */
  queued: readonly Approval[];
  /** The latest version of displayed and queued approvals, by id. */
  latest: ReadonlyMap<string, Approval>;
  /** Rows that no longer match the filter but are still displayed: the time of the event, by id. */
  endedAt: ReadonlyMap<string, number>;
  /** The ids of removed rows. */
  removed: ReadonlySet<string>;
}

export const emptyList: List = { inserted: [], queued: [], latest: new Map(), endedAt: new Map(), removed: new Set() };
/** How long an ended row stays, in milliseconds. */
export const endedRowLifetime = 10_000;

export type Action =
  /** The stream sent an approval. */
  | {
      type: "received";
      approval: Approval;
      /** Whether it matches the filter. */
      matches: boolean;
      /** The time of the event, in milliseconds. */
      at: number;
      /** Whether rows may move now. */
      canMove: boolean;
      /** The loaded pages, and whether the approval belongs below them. */
      loaded: readonly Approval[];
      isBelow: boolean;
    }
  /** The user requests the queued approvals. */
  | { type: "show" }
  /** Rows may move: remove the rows that ended before this time. */
  | { type: "tidy"; before: number };

export function reduce(list: List, action: Action): List {
  switch (action.type) {
    case "received": {
      const { approval } = action;
      const id = approval.approvalId;
      const current = list.latest.get(id) ?? action.loaded.find((a) => a.approvalId === id);
      const latest = new Map(list.latest);
      if (current !== undefined) {
        if (current.version > approval.version) return list;
        latest.set(id, approval);
        // A queued approval that no longer matches is dropped.
        const queued = list.queued.some((a) => a.approvalId === id) && !action.matches ? list.queued.filter((a) => a.approvalId !== id) : list.queued;
        const endedAt = new Map(list.endedAt);
        const removed = new Set(list.removed);
        if (action.matches) {
          endedAt.delete(id);
          removed.delete(id);
        } else if (!removed.has(id)) {
          endedAt.set(id, endedAt.get(id) ?? action.at);
        }
        return { ...list, latest, queued, endedAt, removed };
      }
      if (!action.matches || action.isBelow) return list;
      latest.set(id, approval);
      return action.canMove ? { ...list, latest, inserted: merge([approval], list.inserted) } : { ...list, latest, queued: merge([approval], list.queued) };
    }
    case "show":
      return { ...list, inserted: merge(list.queued, list.inserted), queued: [] };
    case "tidy": {
      const leaving = [...list.endedAt].filter(([, at]) => at <= action.before).map(([id]) => id);
      if (leaving.length === 0) return list;
      return { ...list, endedAt: new Map([...list.endedAt].filter(([id]) => !leaving.includes(id))), removed: new Set([...list.removed, ...leaving]) };
    }
  }
}

// Ids are ULIDs and sort by time.
function merge(a: readonly Approval[], b: readonly Approval[]): Approval[] {
  const all = [...a, ...b.filter((x) => !a.some((y) => y.approvalId === x.approvalId))];
  return all.sort((x, y) => (x.approvalId < y.approvalId ? 1 : -1));
}

/** Returns the rows in their latest versions; ascending has the oldest first. */
export function rowsOf(list: List, loaded: readonly Approval[], ascending = false): Approval[] {
  const seen = new Set<string>();
  const rows: Approval[] = [];
  for (const approval of ascending ? [...loaded, ...list.inserted.toReversed()] : [...list.inserted, ...loaded]) {
    if (seen.has(approval.approvalId) || list.removed.has(approval.approvalId)) continue;
    seen.add(approval.approvalId);
    const newer = list.latest.get(approval.approvalId);
    rows.push(newer !== undefined && newer.version >= approval.version ? newer : approval);
  }
  return rows;
}
