// @vitest-environment node
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { build } from "vite";

const root = resolve(import.meta.dirname, "../../..");

async function page(): Promise<string> {
  const made = await build({ configFile: resolve(root, "verifier.config.ts"), root, logLevel: "silent", build: { write: false } });
  if (!("output" in made)) throw new Error("expected one build");
  const [file, ...more] = made.output as readonly { fileName: string; type: string; source?: string | Uint8Array }[];
  expect(more).toEqual([]);
  expect(file?.fileName).toBe("palyra-verifier.html");
  return String(file?.source);
}

test("the single-file verifier has the published digest and uses no network", async () => {
  const text = await page();
  expect(await page(), "a second build").toBe(text);
  const published = readFileSync(resolve(root, "../docs/format/verifier.sha256"), "utf8");
  expect(`${createHash("sha256").update(text).digest("hex")}  palyra-verifier.html\n`, "`make web` writes docs/format/verifier.sha256").toBe(published);
  expect(text).toContain("default-src 'none'");
  expect(text).not.toMatch(/\b(fetch|XMLHttpRequest|WebSocket|sendBeacon)\b|https?:\/\/(?!in-toto\.io\/|palyra\.dev\/attestation\/)/);
  // The content security policy allows exactly the inlined script.
  const script = /<script type="module">([\s\S]*)<\/script>/.exec(text)?.[1] ?? "";
  expect(text).toContain(`script-src 'sha256-${createHash("sha256").update(script).digest("base64")}'`);
});
