import { Fragment, useState } from "react";
import { Badge } from "./Badge";
import { Button } from "./Button";
import { cx } from "./cx";
import { Untrusted } from "./Untrusted";

export interface DiffLine {
  /** "+", "-" or " ". */
  kind: string;
  text: string;
  noNewline: boolean;
}

export interface DiffHunk {
  oldStart: number;
  newStart: number;
  lines: readonly DiffLine[];
}

export interface DiffFile {
  kind: string;
  path: string;
  oldPath: string;
  oldMode: string;
  newMode: string;
  binary: boolean;
  hunks: readonly DiffHunk[];
}

const initialLines = 1000;

/** File changes as a diff, with line numbers and a link to each hunk. */
export function Diff({ files }: { files: readonly DiffFile[] }) {
  return (
    <div className="flex flex-col gap-3">
      {files.map((file, i) => (
        // The index is the only identity of a file in a diff.
        <File key={i} file={file} at={i} />
      ))}
    </div>
  );
}

function File({ file, at }: { file: DiffFile; at: number }) {
  const [visibleLines, setVisibleLines] = useState(initialLines);
  const lines = file.hunks.reduce((n, hunk) => n + hunk.lines.length, 0);
  const added = file.hunks.reduce((n, hunk) => n + hunk.lines.filter((line) => line.kind === "+").length, 0);
  const removed = file.hunks.reduce((n, hunk) => n + hunk.lines.filter((line) => line.kind === "-").length, 0);
  const parts = firstLines(file.hunks, visibleLines);
  return (
    <section aria-label={`Changes of ${file.path}`} className="overflow-hidden rounded-lg border border-line">
      <header className="flex flex-wrap items-center gap-2 border-b border-line bg-panel px-3 py-1.5 text-sm">
        <Badge tone={file.kind === "delete" ? "bad" : file.kind === "create" ? "good" : "plain"}>{file.kind}</Badge>
        {file.oldPath !== "" && file.oldPath !== file.path && (
          <>
            <Untrusted text={file.oldPath} className="font-mono" /> →
          </>
        )}
        <Untrusted text={file.path} className="font-mono font-semibold break-all" />
        {file.oldMode !== file.newMode && (
          <Badge tone="warn">
            mode {file.oldMode || "none"} → {file.newMode || "none"}
          </Badge>
        )}
        <span className="ml-auto whitespace-nowrap text-quiet">
          {added} added, {removed} removed
        </span>
      </header>
      {file.binary && <p className="px-3 py-2 text-quiet">The contents are binary and are not displayed.</p>}
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={`Diff of ${file.path}`}>
        <table className="w-full border-collapse font-mono text-sm">
          <tbody>{parts.map(({ hunk, from }) => hunkRows(hunk, `change-${at}-${from}`))}</tbody>
        </table>
      </div>
      {lines > visibleLines && (
        <p className="border-t border-line p-2">
          <Button size="small" onClick={() => setVisibleLines(visibleLines + 5 * initialLines)}>
            Show more ({(lines - visibleLines).toLocaleString()} lines left)
          </Button>
        </p>
      )}
    </section>
  );
}

// Returns the first lines of the hunks, up to a total number.
function firstLines(hunks: readonly DiffHunk[], lines: number): { hunk: DiffHunk; from: number }[] {
  const parts: { hunk: DiffHunk; from: number }[] = [];
  let rest = lines;
  for (const [from, hunk] of hunks.entries()) {
    if (rest <= 0) break;
    parts.push({ hunk: hunk.lines.length > rest ? { ...hunk, lines: hunk.lines.slice(0, rest) } : hunk, from });
    rest -= hunk.lines.length;
  }
  return parts;
}

const signs: Readonly<Record<string, string>> = { "+": "added", "-": "removed" };

function hunkRows(hunk: DiffHunk, id: string) {
  let before = hunk.oldStart;
  let after = hunk.newStart;
  const rows = hunk.lines.map((line, i) => {
    const numbers = [line.kind === "+" ? "" : before, line.kind === "-" ? "" : after];
    if (line.kind !== "+") before++;
    if (line.kind !== "-") after++;
    return (
      <tr key={i} className={cx(line.kind === "+" && "bg-good-soft", line.kind === "-" && "bg-bad-soft")}>
        <td className="w-10 px-2 text-right align-top text-quiet select-none">{numbers[0]}</td>
        <td className="w-10 px-2 text-right align-top text-quiet select-none">{numbers[1]}</td>
        <td className="w-5 text-center align-top select-none">
          <span aria-hidden>{line.kind}</span>
          <span className="sr-only">{signs[line.kind] ?? ""}</span>
        </td>
        <td className="pr-3 break-all whitespace-pre-wrap">
          <Untrusted text={line.text} />
          {line.noNewline && <span className="text-quiet"> (no line break at the end)</span>}
        </td>
      </tr>
    );
  });
  return (
    <Fragment key={id}>
      <tr id={id} className="bg-panel text-quiet">
        <td colSpan={4} className="px-2 py-0.5">
          <a href={`#${id}`} className="hover:underline">
            lines from {hunk.oldStart} before, {hunk.newStart} after
          </a>
        </td>
      </tr>
      {rows}
    </Fragment>
  );
}
