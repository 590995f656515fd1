import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalSchema, ApprovalState } from "../../gen/palyra/v1/approvals_pb";
import type { List } from "./list";
import { emptyList, reduce, rowsOf } from "./list";

function approval(id: string, version = 1, state = ApprovalState.PENDING): Approval {
  return create(ApprovalSchema, { approvalId: id, version: BigInt(version), state });
}

function receive(list: List, a: Approval, over: { matches?: boolean; at?: number; canMove?: boolean; loaded?: Approval[]; isBelow?: boolean } = {}): List {
  return reduce(list, { type: "received", approval: a, matches: true, at: 0, canMove: false, loaded: [], isBelow: false, ...over });
}

const ids = (rows: readonly Approval[]) => rows.map((a) => a.approvalId);

test("new approvals are queued while rows must not move", () => {
  const loaded = [approval("05"), approval("04")];
  let list = receive(emptyList, approval("06"), { loaded });
  list = receive(list, approval("07"), { loaded });
  expect(ids(rowsOf(list, loaded))).toEqual(["05", "04"]);
  expect(ids(list.queued)).toEqual(["07", "06"]);
  list = reduce(list, { type: "show" });
  expect(ids(rowsOf(list, loaded))).toEqual(["07", "06", "05", "04"]);
  expect(list.queued).toEqual([]);
});

test("new approvals are inserted first if rows may move", () => {
  const list = receive(emptyList, approval("06"), { canMove: true });
  expect(ids(rowsOf(list, [approval("05")]))).toEqual(["06", "05"]);
});

test("in ascending order new approvals are inserted last", () => {
  const loaded = [approval("04"), approval("05")];
  let list = receive(emptyList, approval("06"), { canMove: true, loaded });
  list = receive(list, approval("07"), { canMove: true, loaded });
  expect(ids(rowsOf(list, loaded, true))).toEqual(["04", "05", "06", "07"]);
});

test("an answer updates its row in place", () => {
  const loaded = [approval("05"), approval("04")];
  const list = receive(emptyList, approval("05", 2, ApprovalState.DENIED), { loaded, matches: false });
  expect(rowsOf(list, loaded).map((a) => a.state)).toEqual([ApprovalState.DENIED, ApprovalState.PENDING]);
});

test("an older version is ignored", () => {
  const loaded = [approval("05", 3, ApprovalState.DENIED)];
  expect(receive(emptyList, approval("05", 2), { loaded })).toBe(emptyList);
});

test("a queued approval that was answered is dropped", () => {
  let list = receive(emptyList, approval("06"));
  list = receive(list, approval("06", 2, ApprovalState.EXPIRED), { matches: false });
  expect(list.queued).toEqual([]);
});

test("approvals outside of the filter or on a later page are ignored", () => {
  expect(receive(emptyList, approval("06"), { matches: false })).toBe(emptyList);
  expect(receive(emptyList, approval("01"), { isBelow: true })).toBe(emptyList);
});

test("ended approvals keep their row for a while and then leave", () => {
  const loaded = [approval("05"), approval("04"), approval("03")];
  let list = receive(emptyList, approval("05", 2, ApprovalState.DENIED), { loaded, matches: false, at: 1_000 });
  list = receive(list, approval("04", 2, ApprovalState.EXPIRED), { loaded, matches: false, at: 9_000 });
  expect(ids(rowsOf(list, loaded))).toEqual(["05", "04", "03"]);
  list = receive(list, approval("05", 3, ApprovalState.DENIED), { loaded, matches: false, at: 9_000 });
  list = reduce(list, { type: "tidy", before: 1_000 });
  expect(ids(rowsOf(list, loaded))).toEqual(["04", "03"]);
  expect(ids(rowsOf(list, loaded, true))).toEqual(["04", "03"]);
  expect(reduce(list, { type: "tidy", before: 2_000 })).toBe(list);
});

test("cancelled, consumed and revoked approvals leave, and matching ones return", () => {
  const states = [ApprovalState.CANCELLED, ApprovalState.CONSUMED, ApprovalState.REVOKED];
  const loaded = states.map((_, i) => approval(`0${i}`));
  let list: List = emptyList;
  for (const [i, state] of states.entries()) list = receive(list, approval(`0${i}`, 2, state), { loaded, matches: false });
  list = reduce(list, { type: "tidy", before: 0 });
  expect(rowsOf(list, loaded)).toEqual([]);
  list = receive(list, approval("01", 3), { loaded });
  expect(ids(rowsOf(list, loaded))).toEqual(["01"]);
});
