import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FilterBar } from "../ui/FilterBar";
import { Table } from "../ui/Table";
import { KeysHelp } from "./KeysHelp";

vi.mock("../api/whoami", () => ({ useCan: () => true }));
vi.mock("./router", () => ({ useGo: () => () => undefined, ScreenLink: () => null }));

beforeEach(() => {
  const none = () => undefined;
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe = none;
      unobserve = none;
      disconnect = none;
    },
  );
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test("the help lists every key that acts", () => {
  const changed = vi.fn();
  const page = (help: boolean) => (
    <>
      <FilterBar screen="calls" facets={[{ id: "tool", label: "Tool" }]} line="" onChange={changed} />
      <Table label="Rows" rows={["a", "b"]} rowKey={(row) => row} rowHeight={40} href={(row) => `/${row}`} columns={[{ id: "row", label: "Row", className: "grow", cell: (row) => row }]} />
      <KeysHelp open={help} onClose={() => undefined} />
    </>
  );
  const { rerender } = render(page(false));
  const filter = screen.getByRole("searchbox");
  fireEvent.keyDown(document.body, { key: "Esc" });
  expect(document.activeElement).not.toBe(filter);
  fireEvent.keyDown(document.body, { key: "/" });
  expect(document.activeElement).toBe(filter);
  fireEvent.keyDown(filter, { key: "Escape" });
  expect(document.activeElement).not.toBe(filter);
  rerender(page(true));
  const listed = screen.getAllByRole("term").map((term) => term.textContent);
  expect(listed.toSorted()).toEqual(["/", "Enter", "Esc", "j", "k", "o", "↓ ↑"].toSorted());
});
