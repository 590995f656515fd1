// Helpers of the policy screens: carets, positions, sources and call descriptions.
import { create } from "@bufbuild/protobuf";
import type { CallDescription, PolicyFinding, PolicySource } from "../../gen/palyra/v1/policy_pb";
import { CallDescriptionSchema } from "../../gen/palyra/v1/policy_pb";
import type { Tone } from "../../ui/Badge";

/** Returns the line with a caret below a column of a source line, counted from 1. Tabs are kept for the alignment. */
export function caret(sourceLine: string, column: number): string {
  if (column < 1) return "";
  const before = Array.from(sourceLine).slice(0, column - 1);
  return `${before.map((character) => (character === "\t" ? "\t" : " ")).join("")}^`;
}

/** Returns the offset of a line and column, both counted from 1, in a text. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split("\n");
  const row = Math.min(Math.max(line, 1), lines.length);
  const before = lines.slice(0, row - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return before + Math.min(Math.max(column - 1, 0), lines[row - 1]?.length ?? 0);
}

/** Returns the highest severity of each line of a file: "error" or "warning". */
export function severityByLine(findings: readonly PolicyFinding[], file: string): Map<number, string> {
  const worst = new Map<number, string>();
  for (const finding of findings) {
    if (finding.file === file && worst.get(finding.line) !== "error") worst.set(finding.line, finding.severity);
  }
  return worst;
}

/** Returns the operator's files with one file replaced by name, or added. */
export function withSource(sources: readonly PolicySource[], name: string, text: string): { name: string; text: string }[] {
  const others = sources.filter((source) => source.name !== name).map((source) => ({ name: source.name, text: source.text }));
  return [...others, { name, text }].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the tone of a verdict or decision. */
export function verdictTone(verdict: string): Tone {
  switch (verdict) {
    case "allow":
    case "allowed":
      return "good";
    case "ask":
      return "accent";
    case "deny":
    case "denied":
      return "bad";
    default:
      return "warn";
  }
}

/** A policy file in the editor. */
export interface Draft {
  name: string;
  text: string;
  /** The call to simulate, if the draft was started for one. */
  call?: CallForm;
}

/** The fields of the form that describes a call. */
export interface CallForm {
  tool: string;
  principal: string;
  input: string;
  facts: string;
}

/** Converts the form to a call, or returns its problem. */
export function parseCall(form: CallForm): { call: CallDescription } | { problem: string } {
  if (form.tool.trim() === "") return { problem: "Enter a tool." };
  const input = object(form.input);
  if (input === undefined) return { problem: "The input is not a JSON object." };
  const facts = object(form.facts);
  if (facts === undefined) return { problem: "The facts are not a JSON object." };
  return { call: create(CallDescriptionSchema, { tool: form.tool.trim(), principal: form.principal.trim(), inputJson: input, factsJson: facts }) };
}

// Returns the bytes of a JSON object: empty for a blank text, undefined for other values.
function object(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.trim() === "") return new Uint8Array();
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  } catch {
    return undefined;
  }
  return new TextEncoder().encode(text);
}
