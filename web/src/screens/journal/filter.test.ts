import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { parseFilter } from "../../ui/filter";
import { multiValuedFacets, eventFilter, facets, listCommand, parseMoment } from "./filter";

test("moment accepts ages and dates", () => {
  expect(parseMoment("2h", 10_000_000)).toBe(2_800_000);
  expect(parseMoment("2026-01-31T12:00:00Z", 0)).toBe(Date.UTC(2026, 0, 31, 12));
  expect(parseMoment("yesterday", 0)).toBeUndefined();
  expect(parseMoment("12", 0)).toBeUndefined();
});

test("a filter becomes a request and a command", () => {
  const filter = parseFilter("code:PAL-D actor:user:bob since:1m", facets);
  expect(filter.problems).toEqual([]);
  const asked = eventFilter(filter, 120_000);
  expect(asked).toMatchObject({ code: "PAL-D", actor: "user:bob", subject: "", run: "" });
  expect(timestampMs(asked.since as Timestamp)).toBe(60_000);
  expect(asked.until).toBeUndefined();
  expect(listCommand(filter)).toBe("palyra journal list --last 200 --code PAL-D --actor user:bob --since 1m");
});

test("unsupported terms are reported", () => {
  expect(parseFilter("-code:PAL-D", facets).problems).toHaveLength(1);
  expect(parseFilter("since:soon", facets).problems).toHaveLength(1);
  expect(multiValuedFacets(parseFilter("code:PAL-D,PAL-A run:x", facets))).toEqual(["code"]);
});
