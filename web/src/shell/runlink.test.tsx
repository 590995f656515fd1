import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { newQueryClient } from "../api/query";
import { GatewayService } from "../gen/palyra/v1/gateway_pb";
import { RunLink } from "./RunLink";

const [known, proposal] = ["01KB1K0T3MXGR4F5V4D8YH1Q2Z", "01KB1K0T3MXGR4F5V4D8YH1Q30"];
const gateway = vi.hoisted<{ requests: string[] }>(() => ({ requests: [] }));

const transport = createRouterTransport(({ service }) => {
  service(GatewayService, {
    getRun: ({ runId }) => {
      gateway.requests.push(runId);
      if (runId === known) return { run: { runId } };
      throw new ConnectError("run not found", Code.NotFound);
    },
  });
});
vi.mock("../api/transport", () => ({ client: (service: typeof GatewayService) => createClient(service, transport) }));
vi.mock("./router", () => ({ ScreenLink: ({ to, children }: { to: string; children: string }) => <a href={to}>{children}</a> }));

afterEach(() => {
  cleanup();
  gateway.requests = [];
});

function show(run: string): void {
  render(
    <QueryClientProvider client={newQueryClient()}>
      <RunLink run={run} />
    </QueryClientProvider>,
  );
}

test("a run of the gateway is a link", async () => {
  show(known);
  expect((await screen.findByRole("link")).getAttribute("href")).toBe(`/runs/${known}`);
});

test("a call without a run has no link to a run", async () => {
  show(proposal);
  await waitFor(() => expect(gateway.requests).toEqual([proposal]));
  await waitFor(() => expect(screen.getByText(proposal)).toBeTruthy());
  expect(screen.queryByRole("link")).toBeNull();
});

test("a run named by a caller has no link", () => {
  show("nightly build");
  expect(screen.getByText("nightly build")).toBeTruthy();
  expect(screen.queryByRole("link")).toBeNull();
  expect(gateway.requests).toEqual([]);
});
