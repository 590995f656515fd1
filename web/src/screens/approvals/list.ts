// The list of an inbox: what the gateway listed, what the stream said since, and what is
// held back so that nothing moves under the reader's cursor.
import type { Approval } from "../../gen/palyra/v1/approvals_pb";

export interface List {
  /** Newer than what was listed, and shown, newest first. */
  fresh: readonly Approval[];
  /** Newer, and held back, newest first. */
  held: readonly Approval[];
  /** The newest that is known of what is shown or held, by id. */
  known: ReadonlyMap<string, Approval>;
  /** What the filter shows no longer, and is still a row with its end; by id, when it was told. */
  ended: ReadonlyMap<string, number>;
  /** What is no row any more. */
  gone: ReadonlySet<string>;
}

export const emptyList: List = { fresh: [], held: [], known: new Map(), ended: new Map(), gone: new Set() };
/** How long a row shows how it ended, in milliseconds, before it leaves. */
export const linger = 10_000;

export type Act =
  /** The stream told of an approval. */
  | {
      type: "told";
      approval: Approval;
      /** Whether the filter shows it. */
      passes: boolean;
      /** When it was told, in milliseconds. */
      at: number;
      /** Whether rows may move now. */
      free: boolean;
      /** The pages that are loaded, and whether the approval belongs below them. */
      listed: readonly Approval[];
      below: boolean;
    }
  /** The reader wants to see what is held back. */
  | { type: "show" }
  /** Rows may move: those whose end was told before this time leave. */
  | { type: "tidy"; before: number }
  /** The pages were loaded anew. */
  | { type: "anew" };

export function reduce(list: List, act: Act): List {
  switch (act.type) {
    case "told": {
      const { approval } = act;
      const id = approval.approvalId;
      const here = list.known.get(id) ?? act.listed.find((a) => a.approvalId === id);
      const known = new Map(list.known);
      if (here !== undefined) {
        if (here.version > approval.version) return list;
        known.set(id, approval);
        // What is held back and is no longer wanted is not shown later.
        const held = list.held.some((a) => a.approvalId === id) && !act.passes ? list.held.filter((a) => a.approvalId !== id) : list.held;
        const ended = new Map(list.ended);
        const gone = new Set(list.gone);
        if (act.passes) {
          ended.delete(id);
          gone.delete(id);
        } else if (!gone.has(id)) {
          ended.set(id, ended.get(id) ?? act.at);
        }
        return { ...list, known, held, ended, gone };
      }
      if (!act.passes || act.below) return list;
      known.set(id, approval);
      return act.free ? { ...list, known, fresh: merge([approval], list.fresh) } : { ...list, known, held: merge([approval], list.held) };
    }
    case "show":
      return { ...list, fresh: merge(list.held, list.fresh), held: [] };
    case "tidy": {
      const leaving = [...list.ended].filter(([, at]) => at <= act.before).map(([id]) => id);
      if (leaving.length === 0) return list;
      return { ...list, ended: new Map([...list.ended].filter(([id]) => !leaving.includes(id))), gone: new Set([...list.gone, ...leaving]) };
    }
    case "anew":
      return emptyList;
  }
}

// Ids are ULIDs: they sort by time.
function merge(a: readonly Approval[], b: readonly Approval[]): Approval[] {
  const all = [...a, ...b.filter((x) => !a.some((y) => y.approvalId === x.approvalId))];
  return all.sort((x, y) => (x.approvalId < y.approvalId ? 1 : -1));
}

/** The rows to show, each as it is known newest; upwards has the oldest first. */
export function rowsOf(list: List, listed: readonly Approval[], upwards = false): Approval[] {
  const seen = new Set<string>();
  const rows: Approval[] = [];
  for (const approval of upwards ? [...listed, ...list.fresh.toReversed()] : [...list.fresh, ...listed]) {
    if (seen.has(approval.approvalId) || list.gone.has(approval.approvalId)) continue;
    seen.add(approval.approvalId);
    const newer = list.known.get(approval.approvalId);
    rows.push(newer !== undefined && newer.version >= approval.version ? newer : approval);
  }
  return rows;
}
