// A line-by-line comparison of two texts.
import type { DiffHunk, DiffLine } from "./Diff";

const contextLines = 3;
// The maximum number of line pairs to compare. Above it, all old lines are removed and all new lines added.
const maxPairs = 1_000_000;

/** Compares two texts and returns one hunk with a few lines of context. */
export function diffLines(before: readonly string[], is: readonly string[]): DiffHunk {
  let head = 0;
  while (head < before.length && head < is.length && before[head] === is[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < is.length - head && before[before.length - 1 - tail] === is[is.length - 1 - tail]) tail++;
  const from = Math.max(0, head - contextLines);
  return {
    oldStart: from + 1,
    newStart: from + 1,
    lines: [
      ...before.slice(from, head).map((text) => lineOf(" ", text)),
      ...diffMiddle(before.slice(head, before.length - tail), is.slice(head, is.length - tail)),
      ...is.slice(is.length - tail, is.length - tail + Math.min(tail, contextLines)).map((text) => lineOf(" ", text)),
    ],
  };
}

function lineOf(kind: string, text: string): DiffLine {
  return { kind, text, noNewline: false };
}

// Keeps the longest common subsequence of lines.
function diffMiddle(was: readonly string[], is: readonly string[]): DiffLine[] {
  if (was.length * is.length > maxPairs) return [...was.map((text) => lineOf("-", text)), ...is.map((text) => lineOf("+", text))];
  // common[i][j] is the length of the longest common subsequence of was[i:] and is[j:].
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
