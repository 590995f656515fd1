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
}

export const emptyList: List = { fresh: [], held: [], known: new Map() };

export type Act =
  /** The stream told of an approval. */
  | {
      type: "told";
      approval: Approval;
      /** Whether the filter shows it. */
      passes: boolean;
      /** Whether rows may move now. */
      free: boolean;
      /** The pages that are loaded, and whether the approval belongs below them. */
      listed: readonly Approval[];
      below: boolean;
    }
  /** The reader wants to see what is held back. */
  | { type: "show" }
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
        return { ...list, known, held };
      }
      if (!act.passes || act.below) return list;
      known.set(id, approval);
      return act.free ? { ...list, known, fresh: merge([approval], list.fresh) } : { ...list, known, held: merge([approval], list.held) };
    }
    case "show":
      return { ...list, fresh: merge(list.held, list.fresh), held: [] };
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
    if (seen.has(approval.approvalId)) continue;
    seen.add(approval.approvalId);
    const newer = list.known.get(approval.approvalId);
    rows.push(newer !== undefined && newer.version >= approval.version ? newer : approval);
  }
  return rows;
}
