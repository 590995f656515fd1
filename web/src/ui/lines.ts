// How two texts differ, line by line.
import type { DiffHunk, DiffLine } from "./Diff";

const around = 3;
// So many pairs of lines are compared; of more, the one is shown as gone and the other as new.
const pairs = 1_000_000;

/** Texts by their lines as one hunk, with a few lines around what differs. */
export function differences(was: readonly string[], is: readonly string[]): DiffHunk {
  let head = 0;
  while (head < was.length && head < is.length && was[head] === is[head]) head++;
  let tail = 0;
  while (tail < was.length - head && tail < is.length - head && was[was.length - 1 - tail] === is[is.length - 1 - tail]) tail++;
  const from = Math.max(0, head - around);
  return {
    oldStart: from + 1,
    newStart: from + 1,
    lines: [
      ...was.slice(from, head).map((text) => lineOf(" ", text)),
      ...between(was.slice(head, was.length - tail), is.slice(head, is.length - tail)),
      ...is.slice(is.length - tail, is.length - tail + Math.min(tail, around)).map((text) => lineOf(" ", text)),
    ],
  };
}

function lineOf(kind: string, text: string): DiffLine {
  return { kind, text, noNewline: false };
}

// The lines that both have in the same order stay: as many as can be.
function between(was: readonly string[], is: readonly string[]): DiffLine[] {
  if (was.length * is.length > pairs) return [...was.map((text) => lineOf("-", text)), ...is.map((text) => lineOf("+", text))];
  // common[i][j] is how many lines was from i on and is from j on have in common.
  const common = Array.from({ length: was.length + 1 }, () => new Uint32Array(is.length + 1));
  const at = (i: number, j: number) => common[i]?.[j] ?? 0;
  for (let i = was.length - 1; i >= 0; i--) {
    for (let j = is.length - 1; j >= 0; j--) {
      (common[i] as Uint32Array)[j] = was[i] === is[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  for (let i = 0, j = 0; i < was.length || j < is.length; ) {
    const [before, after] = [was[i], is[j]];
    if (before !== undefined && before === after) {
      lines.push(lineOf(" ", before));
      i++;
      j++;
    } else if (before !== undefined && (after === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(lineOf("-", before));
      i++;
    } else if (after !== undefined) {
      lines.push(lineOf("+", after));
      j++;
    }
  }
  return lines;
}
