// What the screens of policies reckon out: carets, which files are the operator's, the call that a form describes.
import { create } from "@bufbuild/protobuf";
import type { CallDescription, PolicyFinding, PolicySource } from "../../gen/palyra/v1/policy_pb";
import { CallDescriptionSchema } from "../../gen/palyra/v1/policy_pb";
import type { Tone } from "../../ui/Badge";

/** The line below a source line that points at a column, from 1 on; tabs stay tabs so that it stands where it should. */
export function caret(sourceLine: string, column: number): string {
  if (column < 1) return "";
  const before = Array.from(sourceLine).slice(0, column - 1);
  return `${before.map((character) => (character === "\t" ? "\t" : " ")).join("")}^`;
}

/** Where in a text a line begins, from 1 on: to put the cursor there. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split("\n");
  const row = Math.min(Math.max(line, 1), lines.length);
  const before = lines.slice(0, row - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return before + Math.min(Math.max(column - 1, 0), lines[row - 1]?.length ?? 0);
}

/** The worst finding of each line of a file: "error" or "warning". */
export function marks(findings: readonly PolicyFinding[], file: string): Map<number, string> {
  const worst = new Map<number, string>();
  for (const finding of findings) {
    if (finding.file === file && worst.get(finding.line) !== "error") worst.set(finding.line, finding.severity);
  }
  return worst;
}

/** The operator's files with one put in place of the one of its name, or added. */
export function withSource(sources: readonly PolicySource[], name: string, text: string): { name: string; text: string }[] {
  const others = sources.filter((source) => source.name !== name).map((source) => ({ name: source.name, text: source.text }));
  return [...others, { name, text }].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Good for allow, accent for ask, bad for deny. */
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

/** A file as it stands in the editor. */
export interface Draft {
  name: string;
  text: string;
  /** The call that it was begun for, to simulate. */
  call?: Described;
}

/** What a form says of a call. */
export interface Described {
  tool: string;
  principal: string;
  input: string;
  facts: string;
}

/** The call that a form describes, or what is wrong with it. */
export function describe(form: Described): { call: CallDescription } | { wrong: string } {
  if (form.tool.trim() === "") return { wrong: "Name a tool." };
  const input = object(form.input);
  if (input === undefined) return { wrong: "The input is not a JSON object." };
  const facts = object(form.facts);
  if (facts === undefined) return { wrong: "The facts are not a JSON object." };
  return { call: create(CallDescriptionSchema, { tool: form.tool.trim(), principal: form.principal.trim(), inputJson: input, factsJson: facts }) };
}

// The bytes of a JSON object; none for a blank text, undefined for what is no object.
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
