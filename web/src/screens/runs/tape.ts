// A run's tape as rows: what the model said joined to one text, and each call by itself.
import type { RunEvent } from "../../gen/palyra/v1/gateway_pb";

/** One row of a run's timeline. */
export interface Row {
  key: string;
  at: RunEvent["at"];
  kind: "said" | "user" | "turn" | "retry" | "call" | "start" | "end";
  /** What was said, or the tool's name. */
  text: string;
  /** Of a call: its proposal, and the events of it so far. */
  proposal: string;
  events: readonly RunEvent[];
}

/** Adds events to rows, which are in the order of their first event. Events come once each. */
export function extend(rows: readonly Row[], events: readonly RunEvent[]): Row[] {
  const next = [...rows];
  for (const event of events) add(next, event);
  return next;
}

function add(rows: Row[], event: RunEvent) {
  const row = (kind: Row["kind"], text: string): Row => ({ key: String(event.sequence), at: event.at, kind, text, proposal: "", events: [event] });
  switch (event.event.case) {
    case "modelDelta": {
      const last = rows.at(-1);
      const text = event.event.value.text;
      if (last?.kind === "said") rows[rows.length - 1] = { ...last, text: last.text + text };
      else rows.push(row("said", text));
      return;
    }
    case "modelTurn":
      // Its text was said by deltas; a provider that does not stream says it here alone.
      if (event.event.value.text !== "" && rows.at(-1)?.kind !== "said") rows.push(row("said", event.event.value.text));
      return;
    case "userMessage":
      rows.push(row("user", event.event.value.text));
      return;
    case "modelRetry":
      rows.push(row("retry", event.event.value.message));
      return;
    case "started":
      rows.push(row("start", event.event.value.run?.message ?? ""));
      return;
    case "finished":
      rows.push(row("end", event.event.value.run?.detail ?? ""));
      return;
    case undefined:
      return;
    default: {
      const at = rows.findIndex((r) => r.kind === "call" && r.proposal === event.proposalId);
      const found = rows[at];
      if (found !== undefined) {
        rows[at] = { ...found, events: [...found.events, event] };
        return;
      }
      const tool = event.event.case === "proposed" ? event.event.value.tool : "";
      rows.push({ ...row("call", tool), key: event.proposalId, proposal: event.proposalId });
    }
  }
}

/** What a call's events say in one word each, in order. */
export function stepsOf(row: Row): { word: string; tone: "plain" | "accent" | "good" | "bad"; approval?: string }[] {
  return row.events.flatMap((event): { word: string; tone: "plain" | "accent" | "good" | "bad"; approval?: string }[] => {
    switch (event.event.case) {
      case "proposed":
        return [{ word: "proposed", tone: "plain" }];
      case "approvalRequested":
        return [{ word: "asked", tone: "accent", approval: event.event.value.approval?.approvalId ?? "" }];
      case "approvalResolved":
        return [{ word: "answered", tone: "plain", approval: event.event.value.approvalId }];
      case "decision":
        return [event.event.value.allowed ? { word: "allowed", tone: "good" } : { word: `denied: ${event.event.value.reason}`, tone: "bad" }];
      case "result":
        return event.event.value.more ? [] : [{ word: event.event.value.outcome, tone: event.event.value.reason === "" ? "good" : "bad" }];
      case "attestation":
        return [{ word: "attested", tone: "good" }];
      default:
        return [];
    }
  });
}

const decoder = new TextDecoder();

/** The output of a call so far: both streams in the order in which they came. */
export function outputOf(row: Row): string {
  return row.events.map((event) => (event.event.case === "output" ? decoder.decode(event.event.value.data) : "")).join("");
}

/** The result of a call, its chunks joined. */
export function resultOf(row: Row): Uint8Array {
  const parts = row.events.flatMap((event) => (event.event.case === "result" ? [event.event.value.resultJson] : []));
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
