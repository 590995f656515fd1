import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { RunEvent } from "../../gen/palyra/v1/gateway_pb";
import { RunEventSchema } from "../../gen/palyra/v1/gateway_pb";
import { appendEvents, outputOf, resultOf, stepsOf } from "./tape";

let sequence = 0n;
const event = (value: RunEvent["event"], proposalId = ""): RunEvent => {
  sequence += 1n;
  return create(RunEventSchema, { sequence, proposalId, event: value as never });
};
const bytes = (text: string) => new TextEncoder().encode(text);

test("consecutive model deltas are joined", () => {
  const rows = appendEvents([], [event({ case: "modelDelta", value: { text: "I wi" } as never }), event({ case: "modelDelta", value: { text: "ll look." } as never }), event({ case: "proposed", value: { tool: "fs.read" } as never }, "P1"), event({ case: "modelDelta", value: { text: "Done." } as never })]);
  expect(rows.map((row) => [row.kind, row.text])).toEqual([
    ["model", "I will look."],
    ["call", "fs.read"],
    ["model", "Done."],
  ]);
});

test("concurrent calls keep their own events", () => {
  const first = appendEvents([], [event({ case: "proposed", value: { tool: "a" } as never }, "P1"), event({ case: "proposed", value: { tool: "b" } as never }, "P2")]);
  const rows = appendEvents(first, [
    event({ case: "output", value: { data: bytes("from b") } as never }, "P2"),
    event({ case: "output", value: { data: bytes("from a") } as never }, "P1"),
    event({ case: "result", value: { outcome: "", reason: "", more: true, resultJson: bytes('{"x"') } as never }, "P1"),
    event({ case: "result", value: { outcome: "ok", reason: "", more: false, resultJson: bytes(":1}") } as never }, "P1"),
  ]);
  expect(rows).toHaveLength(2);
  const [a, b] = rows;
  if (a === undefined || b === undefined) throw new Error("two rows");
  expect(outputOf(a)).toBe("from a");
  expect(outputOf(b)).toBe("from b");
  expect(new TextDecoder().decode(resultOf(a))).toBe('{"x":1}');
  expect(stepsOf(a).map((step) => step.word)).toEqual(["proposed", "ok"]);
  expect(first[0]?.events).toHaveLength(1);
});
