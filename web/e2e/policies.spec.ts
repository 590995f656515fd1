import { openInbox, decision, expect, expectAccessible, test } from "./fixtures";

const curl = (basename: string) => `@id("team.no-curl")
@reason("curl is not allowed")
forbid (principal, action in [Action::"tool.execute/process.run", Action::"tool.execute/shell.run"], resource)
when { context has exec && context.exec.basename == "${basename}" };
`;

test("a draft is checked and simulated, survives a reload, and is removed by a logout", async ({ page, gateway }) => {
  // A separate login, because this test logs out.
  await openInbox(page, await gateway.link());
  await page.goto(new URL("/policies?tab=write", page.url()).href);
  const editor = page.getByRole("textbox", { name: "Policies, as Cedar" });
  await editor.fill('forbid (principal, action, resource) when { context.exec.basenam == "curl" };');
  await expect(page.getByText(/errors?: the policies would not load/)).toBeVisible();
  await expect(page.getByText(/basenam/).last()).toBeVisible();
  await page.getByLabel("File name").fill("60-curl.cedar");
  await editor.fill(curl("curl"));
  await expect(page.getByText("Valid", { exact: true })).toBeVisible();

  await page.getByLabel("Tool", { exact: true }).fill("process.run");
  await page.getByLabel("Principal").fill("agent:helper");
  await page.getByLabel("Input, as a JSON object").fill('{"argv": ["curl", "https://example.com"]}');
  await page.getByLabel(/^Facts that override/).fill('{"exec": {"basename": "curl"}}');
  await page.getByRole("button", { name: "Simulate", exact: true }).click();
  await expect(page.getByText("active: ask")).toBeVisible();
  await expect(page.getByText("deny", { exact: true }).first()).toBeVisible();
  await expect(page.getByText("curl is not allowed").first()).toBeVisible();
  await expectAccessible(page);

  await page.reload();
  await expect(editor).toHaveValue(curl("curl"));
  await expect(page.getByLabel("File name")).toHaveValue("60-curl.cedar");
  // A new file does not replace it: both are stored, also for another tab.
  await page.getByLabel("Start from").selectOption({ label: "A new file" });
  await expect(editor).toHaveValue("");
  await editor.fill(curl("wget"));
  const drafts = page.getByRole("listitem", { name: /\.cedar$/ });
  await expect(drafts).toHaveCount(2);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByRole("listitem", { name: "60-curl.cedar" }).getByRole("button", { name: "Open" }).click();
  await expect(other.getByRole("textbox", { name: "Policies, as Cedar" })).toHaveValue(curl("curl"));
  await expect(editor).toHaveValue(curl("wget"));
  await other.close();
  await drafts.filter({ hasText: "50-new" }).getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard the draft" }).click();
  await expect(drafts).toHaveCount(1);

  // The draft is not active, and a logout removes it.
  expect(await gateway.palyra("policy", "show")).not.toContain("no-curl");
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByText(/You are logged out/)).toBeVisible();
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain("no-curl");
  // The next login returns to this page.
  await page.goto(await gateway.link());
  await expect(page.getByText("The text is checked as you type")).toBeVisible();
  await expect(drafts).toHaveCount(0);
});

test("a frequent request starts a policy draft that allows nothing", async ({ inbox: page, gateway }) => {
  for (let i = 0; i < 3; i++) {
    const call = gateway.call("fs.write", { path: "again.txt", content: `${i}\n`, mode: "overwrite" });
    await gateway.decide("again.txt", ["--allow", "once"]);
    await call.done;
  }
  const call = gateway.call("fs.write", { path: "again.txt", content: "4\n", mode: "overwrite" });
  await page.getByRole("row", { name: /again\.txt.*left/ }).getByRole("link").click();
  await expect(page.getByText(/the same call was requested 3 times/)).toBeVisible();
  await page.getByRole("button", { name: "Write a policy for it" }).click();
  await expect(page.getByRole("textbox", { name: "Policies, as Cedar" })).toHaveValue(/\/\/ permit\(principal == Agent::"helper", action == Action::"tool\.execute\/fs\.write", resource\)/);
  await expect(page.getByText(/^Valid/)).toBeVisible();
  await page.getByRole("button", { name: "Simulate", exact: true }).click();
  await expect(page.getByText("same as active")).toBeVisible();
  await page.goBack();
  await expect(decision(page)).toBeVisible();
  call.stop();
});

test("versions are stored, displayed and activated again", async ({ inbox: page, gateway }) => {
  await gateway.writePolicy("70-kept.cedar", '@id("kept")\n@reason("kept for the record")\nforbid (principal, action == Action::"tool.execute/process.run", resource)\nwhen { context has exec && context.exec.basename == "never" };\n');
  await gateway.palyra("policy", "reload");
  await page.goto(new URL("/policies", page.url()).href);
  await page.getByText("70-kept.cedar").click();
  await expect(page.getByText("kept for the record")).toBeVisible();
  await page.getByRole("tab", { name: "Versions" }).click();
  const before = page.getByRole("row", { name: /Activate/ }).first();
  await before.getByRole("button", { name: "Activate" }).click();
  await page.getByRole("dialog").getByRole("button", { name: /Activate/ }).last().click();
  await expect.poll(() => gateway.palyra("policy", "show")).not.toContain("kept for the record");
  await gateway.palyra("policy", "reload");
});
