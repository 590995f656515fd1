import { readdirSync, readFileSync, existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

const root = import.meta.dirname;

/** Returns the console's modules that a module imports, statically or dynamically. */
function importsOf(path: string): string[] {
  const found = [...readFileSync(path, "utf8").matchAll(/(?:from\s+|import\(\s*|import\s+)"(\.[^"]+)"/g)];
  return found.flatMap(([, name = ""]) => {
    const at = join(dirname(path), name);
    return [at, `${at}.ts`, `${at}.tsx`, join(at, "index.ts"), join(at, "index.tsx")].filter((file) => /\.tsx?$/.test(file) && existsSync(file));
  });
}

function modules(): Map<string, string[]> {
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && !/\.test\.tsx?$/.test(name));
  return new Map(files.map((name) => [join(root, name), importsOf(join(root, name))]));
}

/** Returns the first cycle of a graph as the names of its modules; empty if the graph has none. */
function cycle(graph: ReadonlyMap<string, string[]>): string[] {
  const done = new Set<string>();
  const walk = (at: string, path: string[]): string[] => {
    if (path.includes(at)) return [...path.slice(path.indexOf(at)), at];
    if (done.has(at)) return [];
    for (const next of graph.get(at) ?? []) {
      const found = walk(next, [...path, at]);
      if (found.length > 0) return found;
    }
    done.add(at);
    return [];
  };
  for (const start of graph.keys()) {
    const found = walk(start, []);
    if (found.length > 0) return found.map((name) => relative(root, name));
  }
  return [];
}

test("the modules have no import cycle", () => {
  const graph = modules();
  expect(graph.size).toBeGreaterThan(100);
  expect([...graph.values()].flat().length).toBeGreaterThan(graph.size);
  expect(cycle(graph)).toEqual([]);
});

test("cycle returns the modules of a cycle", () => {
  expect(cycle(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["b"]]]))).toHaveLength(3);
});
