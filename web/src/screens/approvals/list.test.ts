import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalSchema, ApprovalState } from "../../gen/palyra/v1/approvals_pb";
import type { List } from "./list";
import { emptyList, reduce, rowsOf } from "./list";

function approval(id: string, version = 1, state = ApprovalState.PENDING): Approval {
  return create(ApprovalSchema, { approvalId: id, version: BigInt(version), state });
}

function told(list: List, a: Approval, over: { passes?: boolean; at?: number; free?: boolean; listed?: Approval[]; below?: boolean } = {}): List {
  return reduce(list, { type: "told", approval: a, passes: true, at: 0, free: false, listed: [], below: false, ...over });
}

const ids = (rows: readonly Approval[]) => rows.map((a) => a.approvalId);

test("what is new moves nothing while the reader is at the list", () => {
  const listed = [approval("05"), approval("04")];
  let list = told(emptyList, approval("06"), { listed });
  list = told(list, approval("07"), { listed });
  expect(ids(rowsOf(list, listed))).toEqual(["05", "04"]);
  expect(ids(list.held)).toEqual(["07", "06"]);
  list = reduce(list, { type: "show" });
  expect(ids(rowsOf(list, listed))).toEqual(["07", "06", "05", "04"]);
  expect(list.held).toEqual([]);
});

test("what is new comes first where nobody is at the list", () => {
  const list = told(emptyList, approval("06"), { free: true });
  expect(ids(rowsOf(list, [approval("05")]))).toEqual(["06", "05"]);
});

test("where the oldest come first, what is new comes last", () => {
  const listed = [approval("04"), approval("05")];
  let list = told(emptyList, approval("06"), { free: true, listed });
  list = told(list, approval("07"), { free: true, listed });
  expect(ids(rowsOf(list, listed, true))).toEqual(["04", "05", "06", "07"]);
});

test("an answer changes a row where it is", () => {
  const listed = [approval("05"), approval("04")];
  const list = told(emptyList, approval("05", 2, ApprovalState.DENIED), { listed, passes: false });
  expect(rowsOf(list, listed).map((a) => a.state)).toEqual([ApprovalState.DENIED, ApprovalState.PENDING]);
});

test("an older word changes nothing", () => {
  const listed = [approval("05", 3, ApprovalState.DENIED)];
  expect(told(emptyList, approval("05", 2), { listed })).toBe(emptyList);
});

test("an ask that was answered while it was held back is not shown", () => {
  let list = told(emptyList, approval("06"));
  list = told(list, approval("06", 2, ApprovalState.EXPIRED), { passes: false });
  expect(list.held).toEqual([]);
});

test("what the filter does not show, or what belongs on a later page, stays away", () => {
  expect(told(emptyList, approval("06"), { passes: false })).toBe(emptyList);
  expect(told(emptyList, approval("01"), { below: true })).toBe(emptyList);
});

test("what ended shows how for a while, and leaves when rows may move", () => {
  const listed = [approval("05"), approval("04"), approval("03")];
  let list = told(emptyList, approval("05", 2, ApprovalState.DENIED), { listed, passes: false, at: 1_000 });
  list = told(list, approval("04", 2, ApprovalState.EXPIRED), { listed, passes: false, at: 9_000 });
  expect(ids(rowsOf(list, listed))).toEqual(["05", "04", "03"]);
  list = told(list, approval("05", 3, ApprovalState.DENIED), { listed, passes: false, at: 9_000 });
  list = reduce(list, { type: "tidy", before: 1_000 });
  expect(ids(rowsOf(list, listed))).toEqual(["04", "03"]);
  expect(ids(rowsOf(list, listed, true))).toEqual(["04", "03"]);
  expect(reduce(list, { type: "tidy", before: 2_000 })).toBe(list);
});

test("what was cancelled, consumed or revoked leaves, and what passes again comes back", () => {
  const states = [ApprovalState.CANCELLED, ApprovalState.CONSUMED, ApprovalState.REVOKED];
  const listed = states.map((_, i) => approval(`0${i}`));
  let list: List = emptyList;
  for (const [i, state] of states.entries()) list = told(list, approval(`0${i}`, 2, state), { listed, passes: false });
  list = reduce(list, { type: "tidy", before: 0 });
  expect(rowsOf(list, listed)).toEqual([]);
  list = told(list, approval("01", 3), { listed });
  expect(ids(rowsOf(list, listed))).toEqual(["01"]);
});
