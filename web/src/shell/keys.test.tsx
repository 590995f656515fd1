import { create } from "@bufbuild/protobuf";
import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newQueryClient } from "../api/query";
import { whoamiKey } from "../api/whoami";
import { WhoamiResponseSchema } from "../gen/palyra/v1/console_pb";
import { FilterBar } from "../ui/FilterBar";
import { Table } from "../ui/Table";
import { KeysHelp } from "./KeysHelp";

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

test("the help lists every active key", () => {
  const changed = vi.fn();
  const client = newQueryClient();
  client.setQueryData(whoamiKey, create(WhoamiResponseSchema, {}));
  const page = (help: boolean) => (
    <QueryClientProvider client={client}>
      <FilterBar screen="calls" facets={[{ id: "tool", label: "Tool" }]} line="" onChange={changed} />
      <Table label="Rows" rows={["a", "b"]} rowKey={(row) => row} rowHeight={40} href={(row) => `/${row}`} columns={[{ id: "row", label: "Row", className: "grow", cell: (row) => row }]} />
      <KeysHelp open={help} onClose={() => undefined} />
    </QueryClientProvider>
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
  const listedKeys = screen.getAllByRole("term").map((term) => term.textContent);
  expect(listedKeys.toSorted()).toEqual(["/", "Enter", "Esc", "j", "k", "o", "↓ ↑"].toSorted());
});
