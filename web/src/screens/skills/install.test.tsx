import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newQueryClient } from "../../api/query";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import type { InspectSkillResponseSchema, InstallSkillRequest } from "../../gen/palyra/v1/skill_pb";
import { SkillService } from "../../gen/palyra/v1/skill_pb";
import { Install } from "./Install";

// A gateway with responses set by the test, which records requests.
interface FakeGateway {
  inspection: MessageInitShape<typeof InspectSkillResponseSchema>;
  permissions: string[];
  install?: ((digest: string, signal: AbortSignal) => Promise<void>) | undefined;
  installed: string[];
  navigated: string[];
}
const gateway = vi.hoisted<FakeGateway>(() => ({ inspection: {}, permissions: [], installed: [], navigated: [] }));

const transport = createRouterTransport(({ service }) => {
  service(ConsoleService, { whoami: () => ({ permissions: gateway.permissions }) });
  service(SkillService, {
    stageSkill: ({ offset, data }) => ({ received: offset + BigInt(data.length) }),
    inspectSkill: ({ digest }) => ({ ...gateway.inspection, digest }),
    installSkill: async ({ digest }: InstallSkillRequest, { signal }) => {
      await gateway.install?.(digest, signal);
      gateway.installed.push(digest);
      return { skill: { skill: "notebook", version: "1.1.0" } };
    },
  });
});
vi.mock("../../api/transport", () => ({ client: (service: typeof SkillService) => createClient(service, transport) }));
vi.mock("../../shell/router", () => ({ useGo: () => (to: string) => gateway.navigated.push(to) }));

const pack = new File(["a package"], "notebook-1.1.0.palyra-skill");
const digest = "sha256:c0cd5ccfdb563a59366e33e73001b78fdb8cca5a6c48e2f90fffcde44b81f1f6";
const validPackage = { keyId: "SHA256:abc", manifest: { id: "notebook", version: "1.1.0", publisher: "example.org", name: "Notebook", tools: [{ id: "put", name: "notebook/put", description: "Keeps <b>this</b>\u202e", fuel: 5n }] } };

beforeEach(() => {
  Object.assign(gateway, { inspection: validPackage, permissions: ["skill.write"], installed: [], navigated: [], install: undefined });
});
afterEach(cleanup);

async function choose() {
  const user = userEvent.setup();
  render(
    <QueryClientProvider client={newQueryClient()}>
      <Install />
    </QueryClientProvider>,
  );
  const openButton = screen.getByRole("button", { name: "Install a skill" });
  await waitFor(() => expect(openButton).not.toHaveProperty("ariaDisabled", "true"));
  await user.click(openButton);
  await user.upload(screen.getByLabelText("Package"), pack);
  await screen.findByText("notebook 1.1.0");
  return user;
}

test("the inspected digest is installed", async () => {
  const user = await choose();
  expect(gateway.installed).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Install" }));
  await waitFor(() => expect(gateway.navigated).toEqual(["/skills/notebook?version=1.1.0"]));
  expect(gateway.installed).toEqual([digest]);
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a new key must be compared first", async () => {
  gateway.inspection = { ...validPackage, newPublisher: true };
  const user = await choose();
  const yes = screen.getByRole("button", { name: "Trust the key and install" });
  await user.click(yes);
  expect(gateway.installed).toEqual([]);
  await user.click(screen.getByRole("checkbox", { name: /compared the id of the key/ }));
  await user.click(yes);
  await waitFor(() => expect(gateway.installed).toEqual([digest]));
});

test("another package resets the comparison", async () => {
  gateway.inspection = { ...validPackage, newPublisher: true };
  const user = await choose();
  await user.click(screen.getByRole("checkbox"));
  gateway.inspection = { ...validPackage, newPublisher: true, keyId: "SHA256:def" };
  await user.upload(screen.getByLabelText("Package"), new File(["another"], "x.palyra-skill"));
  await screen.findByRole("button", { name: "Copy SHA256:def" });
  expect(screen.getByRole("checkbox")).toHaveProperty("checked", false);
});

test("a rejected package has a reason and no button", async () => {
  gateway.inspection = { ...validPackage, problem: "another key signed it", remedy: "Ask the publisher.", newPublisher: true, findings: [{ severity: "error", code: "SKILL_SIGNATURE", what: "it was changed" }] };
  await choose();
  expect(screen.getByText("Another key signed it.")).toBeDefined();
  expect(screen.getByText("SKILL_SIGNATURE")).toBeDefined();
  expect(screen.queryByRole("button", { name: /^(trust .* and )?install$/i })).toBeNull();
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("an update lists its additional permissions", async () => {
  gateway.inspection = { ...validPackage, replaces: { skill: "notebook", version: "1.0.0" }, gains: ["requests to evil.example"] };
  await choose();
  expect(screen.getByText("version 1.0.0")).toBeDefined();
  expect(screen.getByText("requests to evil.example")).toBeDefined();
  cleanup();
  gateway.inspection = { ...validPackage, replaces: { skill: "notebook", version: "1.0.0" } };
  await choose();
  expect(screen.getByText("No permissions beyond the current version.")).toBeDefined();
});

test("the publisher's texts are not markup, and invisible characters are visible", async () => {
  await choose();
  const tool = screen.getByRole("listitem", { name: "notebook/put" });
  expect(tool.querySelector("b")).toBeNull();
  expect(tool.textContent).toContain("Keeps <b>this</b>RLO");
});

test("the dialog can be closed while a second approval is pending", async () => {
  let installSignal: AbortSignal | undefined;
  gateway.install = (_, signal) => {
    installSignal = signal;
    return new Promise((_, refused) => signal.addEventListener("abort", () => refused(new ConnectError("withdrawn", Code.Canceled))));
  };
  const user = await choose();
  await user.click(screen.getByRole("button", { name: "Install" }));
  await screen.findByText(/it asks the second one\. You can leave/);
  expect(installSignal?.aborted).toBe(false);
  await user.click(screen.getByRole("button", { name: "Cancel" }));
  expect(installSignal?.aborted).toBe(true);
  expect(gateway.installed).toEqual([]);
  expect(gateway.navigated).toEqual([]);
});

test("a refusal is displayed and the dialog stays open", async () => {
  gateway.install = () => Promise.reject(new ConnectError("the second person said no", Code.PermissionDenied));
  const user = await choose();
  await user.click(screen.getByRole("button", { name: "Install" }));
  expect((await screen.findByRole("alert")).textContent).toContain("The second person said no.");
  expect(gateway.navigated).toEqual([]);
  expect(screen.getByRole("dialog")).toBeDefined();
});

test("without the permission the button is disabled", async () => {
  gateway.permissions = [];
  render(
    <QueryClientProvider client={newQueryClient()}>
      <Install />
    </QueryClientProvider>,
  );
  await userEvent.click(screen.getByRole("button", { name: "Install a skill" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(screen.getByText("You lack the permission skill.write.")).toBeDefined();
});
