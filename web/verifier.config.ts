// Builds the verifier as a single file, palyra-verifier.html, which the console serves.
// The build is reproducible; docs/format/verifier.sha256 holds the digest of the file.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Plugin } from "vite";
import { defineConfig } from "vite";
import { recordModules } from "./linked.ts";

const from = resolve(import.meta.dirname, "src/verify/standalone");

function digest(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/** Inlines the script and the style into the page, and adds their digests to its content security policy. */
const singleFile: Plugin = {
  name: "single-file",
  enforce: "post",
  generateBundle(_, bundle) {
    const chunks = Object.values(bundle);
    const [main] = chunks;
    if (main?.type !== "chunk" || chunks.length !== 1) this.error(`the verifier must be one script, but the build has ${chunks.map((chunk) => chunk.fileName).join(", ")}`);
    const script = main.code.trim().replaceAll("</script", "<\\/script");
    const style = readFileSync(resolve(from, "page.css"), "utf8").trim();
    let page = readFileSync(resolve(from, "page.html"), "utf8");
    for (const [name, text] of [["SCRIPT-DIGEST", digest(script)], ["STYLE-DIGEST", digest(style)], ["STYLE", style], ["SCRIPT", script]] as const) page = page.replace(name, () => text);
    Reflect.deleteProperty(bundle, main.fileName);
    this.emitFile({ type: "asset", fileName: "palyra-verifier.html", source: page });
  },
};

export default defineConfig({
  plugins: [recordModules("verifier"), singleFile],
  publicDir: false,
  worker: { format: "iife", plugins: () => [recordModules("verifier-worker")] },
  build: {
    outDir: "../internal/surface/console/assets/dist",
    emptyOutDir: false,
    modulePreload: false,
    target: "es2023",
    rolldownOptions: { input: resolve(from, "main.ts"), output: { format: "es" } },
  },
});
