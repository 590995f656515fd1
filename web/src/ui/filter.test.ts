import { expect, test } from "vitest";
import type { Facet } from "./filter";
import { formatFilter, parseFilter, matches } from "./filter";

const facets: Facet[] = [
  { id: "tool", label: "Tool" },
  { id: "severity", label: "Severity", values: ["low", "high"] },
  { id: "since", label: "Since", onlyInclude: true },
];

test("inclusion, exclusion and several values at once", () => {
  const f = parseFilter("tool:process.run,http.fetch -severity:low tool:echo", facets);
  expect(f.problems).toEqual([]);
  expect(f.terms).toEqual([
    { facet: "tool", exclude: false, values: ["process.run", "http.fetch", "echo"] },
    { facet: "severity", exclude: true, values: ["low"] },
  ]);
  expect(formatFilter(f.terms)).toBe("tool:process.run,http.fetch,echo -severity:low");
});

test("values with special characters survive formatting and parsing", () => {
  const terms = [{ facet: "tool", exclude: true, values: ['a "b", c\\d', "e:f"] }];
  expect(parseFilter(formatFilter(terms), facets).terms).toEqual(terms);
});

test("invalid terms are reported and do not filter", () => {
  const f = parseFilter("hello severity:huge -since:1h", facets);
  expect(f.terms).toEqual([]);
  expect(f.problems).toHaveLength(3);
});

test("passes applies inclusion and exclusion", () => {
  const f = parseFilter("tool:a,b -severity:low", facets);
  const item = (tool: string, severity: string) => (facet: string) => (facet === "tool" ? [tool] : [severity]);
  expect(matches(f, item("a", "high"))).toBe(true);
  expect(matches(f, item("c", "high"))).toBe(false);
  expect(matches(f, item("a", "low"))).toBe(false);
});
