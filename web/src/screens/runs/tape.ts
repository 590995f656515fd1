// The tape of a run as rows: consecutive model text is joined, and each call has its own row.
import type { RunEvent } from "../../gen/palyra/v1/gateway_pb";

/** One row of a run's timeline. */
export interface Row {
  key: string;
  at: RunEvent["at"];
  kind: "model" | "user" | "turn" | "retry" | "call" | "start" | "end";
  /** The message, or the name of the tool. */
  text: string;
  /** The proposal of a call, and its events so far. */
  proposal: string;
  events: readonly RunEvent[];
}

/** Adds events to rows, which are ordered by their first event. Each event MUST be added only once. */
export function appendEvents(rows: readonly Row[], events: readonly RunEvent[]): Row[] {
  const next = [...rows];
  for (const event of events) appendEvent(next, event);
  return next;
}

function appendEvent(rows: Row[], event: RunEvent) {
  const row = (kind: Row["kind"], text: string): Row => ({ key: String(event.sequence), at: event.at, kind, text, proposal: "", events: [event] });
  switch (event.event.case) {
    case "modelDelta": {
      const last = rows.at(-1);
      const text = event.event.value.text;
      if (last?.kind === "model") rows[rows.length - 1] = { ...last, text: last.text + text };
      else rows.push(row("model", text));
      return;
    }
    case "modelTurn":
      // Providers that stream have sent the text as deltas; others send it only here.
      if (event.event.value.text !== "" && rows.at(-1)?.kind !== "model") rows.push(row("model", event.event.value.text));
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

/** Returns the steps of a call, one word per event. */
export function stepsOf(row: Row): { word: string; tone: "plain" | "accent" | "good" | "bad"; approval?: string }[] {
  return row.events.flatMap((event): { word: string; tone: "plain" | "accent" | "good" | "bad"; approval?: string }[] => {
    switch (event.event.case) {
      case "proposed":
        return [{ word: "proposed", tone: "plain" }];
      case "approvalRequested":
        return [{ word: "approval requested", tone: "accent", approval: event.event.value.approval?.approvalId ?? "" }];
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

/** Returns the output of a call so far: both streams, in order of arrival. */
export function outputOf(row: Row): string {
  return row.events.map((event) => (event.event.case === "output" ? decoder.decode(event.event.value.data) : "")).join("");
}

/** Returns the joined result of a call. */
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
