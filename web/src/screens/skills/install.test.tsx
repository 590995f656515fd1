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

// A gateway that says what a test has it say, and keeps what it is asked.
interface Said {
  seen: MessageInitShape<typeof InspectSkillResponseSchema>;
  may: string[];
  install?: ((digest: string, signal: AbortSignal) => Promise<void>) | undefined;
  installed: string[];
  went: string[];
}
const gateway = vi.hoisted<Said>(() => ({ seen: {}, may: [], installed: [], went: [] }));

const transport = createRouterTransport(({ service }) => {
  service(ConsoleService, { whoami: () => ({ permissions: gateway.may }) });
  service(SkillService, {
    stageSkill: ({ offset, data }) => ({ received: offset + BigInt(data.length) }),
    inspectSkill: ({ digest }) => ({ ...gateway.seen, digest }),
    installSkill: async ({ digest }: InstallSkillRequest, { signal }) => {
      await gateway.install?.(digest, signal);
      gateway.installed.push(digest);
      return { skill: { skill: "notebook", version: "1.1.0" } };
    },
  });
});
vi.mock("../../api/transport", () => ({ client: (service: typeof SkillService) => createClient(service, transport) }));
vi.mock("../../shell/router", () => ({ useGo: () => (to: string) => gateway.went.push(to) }));

const pack = new File(["a package"], "notebook-1.1.0.palyra-skill");
const digest = "sha256:c0cd5ccfdb563a59366e33e73001b78fdb8cca5a6c48e2f90fffcde44b81f1f6";
const known = { keyId: "SHA256:abc", manifest: { id: "notebook", version: "1.1.0", publisher: "example.org", name: "Notebook", tools: [{ id: "put", name: "notebook/put", description: "Keeps <b>this</b>\u202e", fuel: 5n }] } };

beforeEach(() => {
  Object.assign(gateway, { seen: known, may: ["skill.write"], installed: [], went: [], install: undefined });
});
afterEach(cleanup);

async function choose() {
  const user = userEvent.setup();
  render(
    <QueryClientProvider client={newQueryClient()}>
      <Install />
    </QueryClientProvider>,
  );
  const opens = screen.getByRole("button", { name: "Install a skill" });
  await waitFor(() => expect(opens).not.toHaveProperty("ariaDisabled", "true"));
  await user.click(opens);
  await user.upload(screen.getByLabelText("Package"), pack);
  await screen.findByText("notebook 1.1.0");
  return user;
}

test("what was looked at is what is installed, by its digest", async () => {
  const user = await choose();
  expect(gateway.installed).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Install this" }));
  await waitFor(() => expect(gateway.went).toEqual(["/skills/notebook?version=1.1.0"]));
  expect(gateway.installed).toEqual([digest]);
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a key that is new is compared first", async () => {
  gateway.seen = { ...known, newPublisher: true };
  const user = await choose();
  const yes = screen.getByRole("button", { name: "Trust the key and install this" });
  await user.click(yes);
  expect(gateway.installed).toEqual([]);
  await user.click(screen.getByRole("checkbox", { name: /compared the id of the key/ }));
  await user.click(yes);
  await waitFor(() => expect(gateway.installed).toEqual([digest]));
});

test("another package is compared anew", async () => {
  gateway.seen = { ...known, newPublisher: true };
  const user = await choose();
  await user.click(screen.getByRole("checkbox"));
  gateway.seen = { ...known, newPublisher: true, keyId: "SHA256:def" };
  await user.upload(screen.getByLabelText("Package"), new File(["another"], "x.palyra-skill"));
  await screen.findByRole("button", { name: "Copy SHA256:def" });
  expect(screen.getByRole("checkbox")).toHaveProperty("checked", false);
});

test("what cannot be installed has no button, and says why", async () => {
  gateway.seen = { ...known, problem: "another key signed it", remedy: "Ask the publisher.", newPublisher: true, findings: [{ severity: "error", code: "SKILL_SIGNATURE", what: "it was changed" }] };
  await choose();
  expect(screen.getByText("Another key signed it.")).toBeDefined();
  expect(screen.getByText("SKILL_SIGNATURE")).toBeDefined();
  expect(screen.queryByRole("button", { name: /install this/i })).toBeNull();
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("an update says what it asks for beyond what runs now", async () => {
  gateway.seen = { ...known, replaces: { skill: "notebook", version: "1.0.0" }, gains: ["requests to evil.example"] };
  await choose();
  expect(screen.getByText("version 1.0.0")).toBeDefined();
  expect(screen.getByText("requests to evil.example")).toBeDefined();
  cleanup();
  gateway.seen = { ...known, replaces: { skill: "notebook", version: "1.0.0" } };
  await choose();
  expect(screen.getByText("It asks for nothing beyond what runs now.")).toBeDefined();
});

test("the publisher's texts are no markup, and what hides in them is seen", async () => {
  await choose();
  const tool = screen.getByRole("listitem", { name: "notebook/put" });
  expect(tool.querySelector("b")).toBeNull();
  expect(tool.textContent).toContain("Keeps <b>this</b>RLO");
});

test("the dialog can be left while a second person is asked", async () => {
  let given: AbortSignal | undefined;
  gateway.install = (_, signal) => {
    given = signal;
    return new Promise((_, refused) => signal.addEventListener("abort", () => refused(new ConnectError("withdrawn", Code.Canceled))));
  };
  const user = await choose();
  await user.click(screen.getByRole("button", { name: "Install this" }));
  await screen.findByText(/it asks the second one\. You may leave/);
  expect(given?.aborted).toBe(false);
  await user.click(screen.getByRole("button", { name: "Leave it" }));
  expect(given?.aborted).toBe(true);
  expect(gateway.installed).toEqual([]);
  expect(gateway.went).toEqual([]);
});

test("what the gateway refuses is shown, and nothing is said to be done", async () => {
  gateway.install = () => Promise.reject(new ConnectError("the second person said no", Code.PermissionDenied));
  const user = await choose();
  await user.click(screen.getByRole("button", { name: "Install this" }));
  expect((await screen.findByRole("alert")).textContent).toContain("The second person said no.");
  expect(gateway.went).toEqual([]);
  expect(screen.getByRole("dialog")).toBeDefined();
});

test("who may not install is told so", async () => {
  gateway.may = [];
  render(
    <QueryClientProvider client={newQueryClient()}>
      <Install />
    </QueryClientProvider>,
  );
  await userEvent.click(screen.getByRole("button", { name: "Install a skill" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(screen.getByText("You lack the permission skill.write.")).toBeDefined();
});
