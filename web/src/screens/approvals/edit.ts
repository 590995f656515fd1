import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { compactJson, indentJson, leaves } from "../../text/json";
import { escapeInvisible } from "../../text/visible";
import type { DiffFile } from "../../ui/Diff";
import { diffLines } from "../../ui/lines";

/** The gateway's limit, in bytes. */
const maxBytes = 1 << 20;

/** Returns the arguments for the editor: indented, with invisible characters as escapes. */
export function editableText(shown: Approval): string {
  return escapeInvisible(indentJson(new TextDecoder().decode(shown.prompt?.argumentsJson)));
}

/** Returns why the arguments cannot be sent, or undefined if they can. */
export function inputProblem(shown: Approval, text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return `The text is not valid JSON: ${thrown instanceof Error ? thrown.message : "it cannot be parsed"}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "Arguments must be one JSON object: { … }.";
  if (new TextEncoder().encode(text).length > maxBytes) return "The arguments are larger than 1 MiB.";
  const changed = changes(shown, text);
  const hidden = changed.find((c) => (shown.prompt?.redacted ?? []).some((p) => c.pointer === p || c.pointer.startsWith(`${p}/`)));
  if (hidden !== undefined) return `${hidden.pointer} is redacted and must not be changed.`;
  return changed.length === 0 ? "No changes yet." : undefined;
}

/** Returns the bytes to send: the text as written, without whitespace between tokens. */
export function inputOf(text: string): Uint8Array {
  return new TextEncoder().encode(compactJson(text));
}

/** A changed value. was or is is undefined if the value is absent. */
export interface Change {
  pointer: string;
  was: string | undefined;
  is: string | undefined;
}

/** Compares edited arguments with the displayed ones. Both MUST be valid JSON. */
export function changes(shown: Approval, text: string): Change[] {
  const before = leaves(new TextDecoder().decode(shown.prompt?.argumentsJson));
  const after = leaves(text);
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((pointer) => ({ pointer, was: before.get(pointer), is: after.get(pointer) }))
    .filter(({ was, is }) => normalize(was) !== normalize(is));
}

// Normalizes strings: an escape is equal to its character.
function normalize(leaf: string | undefined): string | undefined {
  return leaf?.startsWith('"') === true ? JSON.stringify(JSON.parse(leaf)) : leaf;
}

/** Returns the changes as a diff. A string that stays a string is compared by line. */
export function diffOf(list: readonly Change[]): DiffFile[] {
  return list.map(({ pointer, was, is }) => {
    const texts = was?.startsWith('"') === true && is?.startsWith('"') === true;
    const lines = (leaf: string | undefined) => (leaf === undefined ? [] : texts ? (JSON.parse(leaf) as string).split("\n") : [leaf]);
    return {
      kind: was === undefined ? "create" : is === undefined ? "delete" : "modify",
      path: pointer,
      oldPath: "",
      oldMode: "",
      newMode: "",
      binary: false,
      hunks: [diffLines(lines(was), lines(is))],
    };
  });
}
