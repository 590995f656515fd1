import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { compact, layOut, leaves } from "../../text/json";
import { escaped } from "../../text/visible";
import type { DiffFile } from "../../ui/Diff";
import { differences } from "../../ui/lines";

/** The most that the gateway takes, in bytes. */
const most = 1 << 20;

/** The arguments as they are edited: laid out, and characters that hide are written as escapes. */
export function editable(shown: Approval): string {
  return escaped(layOut(new TextDecoder().decode(shown.prompt?.argumentsJson)));
}

/** Why the arguments cannot be sent; undefined where they can. */
export function whyNot(shown: Approval, text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return `It is no JSON: ${thrown instanceof Error ? thrown.message : "it cannot be read"}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "Arguments are one JSON object: { … }.";
  if (new TextEncoder().encode(text).length > most) return "That is more than 1 MiB.";
  const changed = changes(shown, text);
  const hidden = changed.find((c) => (shown.prompt?.redacted ?? []).some((p) => c.pointer === p || c.pointer.startsWith(`${p}/`)));
  if (hidden !== undefined) return `${hidden.pointer} is hidden and has to stay as it is shown.`;
  return changed.length === 0 ? "Nothing is changed yet." : undefined;
}

/** What is sent: the text as it was written, without the space between. */
export function inputOf(text: string): Uint8Array {
  return new TextEncoder().encode(compact(text));
}

/** One place that differs. was or is are undefined where it is not there. */
export interface Change {
  pointer: string;
  was: string | undefined;
  is: string | undefined;
}

/** How edited arguments differ from those that were shown. Both have to be JSON. */
export function changes(shown: Approval, text: string): Change[] {
  const before = leaves(new TextDecoder().decode(shown.prompt?.argumentsJson));
  const after = leaves(text);
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((pointer) => ({ pointer, was: before.get(pointer), is: after.get(pointer) }))
    .filter(({ was, is }) => meaning(was) !== meaning(is));
}

// Escapes in a string say the same as what they stand for.
function meaning(leaf: string | undefined): string | undefined {
  return leaf?.startsWith('"') === true ? JSON.stringify(JSON.parse(leaf)) : leaf;
}

/** The changes as a diff: a string that was and is one by its lines. */
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
      hunks: [differences(lines(was), lines(is))],
    };
  });
}
