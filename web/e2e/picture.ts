// Takes the screenshot in README: make console-picture.
import { resolve } from "node:path";
import { openApproval, expect, test } from "./fixtures";

test("the screenshot of the console", async ({ inbox: page, gateway }) => {
  await page.emulateMedia({ colorScheme: "light" });
  const calls = [
    gateway.call("process.run", { argv: ["git", "push", "origin", "main"] }),
    gateway.call("fs.write", { path: "greet.py", content: 'def greet(name):\n    return f"Hello, {name}!"\n' }),
    gateway.call("process.run", { argv: ["python3", "greet.py", "Ada"] }),
  ];
  for (const named of ["git push", "greet.py", "python3"]) await expect(page.getByRole("link", { name: named }).first()).toBeVisible();
  await openApproval(page, "default:greet.py");
  await expect(page.locator("[data-armed=true]")).toBeVisible();
  await page.mouse.move(640, 10);
  await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/console.png"), animations: "disabled" });
  for (const call of calls) call.stop();
});
