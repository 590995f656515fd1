import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import type { Plugin } from "vite";

const directory = resolve(import.meta.dirname, "../bin/web-modules");

/** Matches an import of a package in a style sheet: `@import "tailwindcss"`. */
const packageImport = /@import\s+(?:url\()?["']([^."'/][^"']*)["']/g;

/**
 * Writes the modules of a bundle to bin/web-modules/NAME.json. The third-party notices and the
 * SBOM name the packages of these modules. A module that contributes no code is left out. Modules
 * of the bundler itself, such as its runtime, have the prefix "virtual:" and then the package.
 */
export function recordModules(name: string): Plugin {
  return {
    name: "record-modules",
    apply: "build",
    async generateBundle(_, bundle) {
      const ids = new Set<string>();
      for (const output of Object.values(bundle)) {
        if (output.type !== "chunk") continue;
        for (const [id, module] of Object.entries(output.modules)) {
          if (module.renderedLength > 0) ids.add(id);
          // The style sheet is an asset of its own, and a plugin has inlined its imports.
          if (id.endsWith(".css") && !id.startsWith("\0")) {
            ids.add(id);
            for (const [, target] of readFileSync(id, "utf8").matchAll(packageImport)) {
              const resolved = await this.resolve(target ?? "", id);
              if (!resolved) this.error(`${id} imports ${String(target)}, which is not installed`);
              ids.add(resolved.id);
            }
          }
        }
      }
      const modules = [...ids].map((id) => (id.startsWith("\0") ? `virtual:${id.slice(1)}` : relative(import.meta.dirname, id).replaceAll("\\", "/")));
      const file = resolve(directory, `${name}.json`);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `${JSON.stringify(modules.sort(), null, 1)}\n`);
    },
  };
}
