package builtin

import (
	"cmp"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/unified"
)

// apply returns the patched content. Context and removed lines must be in the file exactly at the
// line of the hunk, byte for byte; a hunk that would fit elsewhere is refused. Errors carry
// reason.PatchConflict.
func (f filePatch) apply(old []byte) ([]byte, error) {
	lines := unified.Lines(old)
	var out []string
	next := 0 // index of the first line not copied yet
	for _, h := range f.hunks {
		start := h.oldStart - 1
		if h.oldCount == 0 {
			start = h.oldStart
		}
		if start < next || start > len(lines) {
			return nil, f.conflict(h, start, lines, "")
		}
		out = append(out, lines[next:start]...)
		next = start
		for _, op := range h.ops {
			if op.kind != '+' {
				if next >= len(lines) || lines[next] != op.text {
					return nil, f.conflict(h, next, lines, op.text)
				}
				next++
			}
			if op.kind != '-' {
				out = append(out, op.text)
			}
		}
	}
	out = append(out, lines[next:]...)
	if f.newPath == "" && len(out) > 0 {
		return nil, reason.Errorf(reason.PatchConflict, "the patch deletes %s but does not remove all of its lines", quoteLine(f.oldPath))
	}
	return f.joinLines(out)
}

// joinLines refuses a result in which a line without a line end precedes another line, because
// the two would be joined.
func (f filePatch) joinLines(lines []string) ([]byte, error) {
	for i, line := range lines {
		if i < len(lines)-1 && !strings.HasSuffix(line, "\n") {
			return nil, reason.Errorf(reason.PatchConflict, "%s: line %d would have no line end, but is not the last line",
				quoteLine(cmp.Or(f.newPath, f.oldPath)), i+1)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

func (f filePatch) conflict(h patchHunk, at int, lines []string, want string) error {
	name := cmp.Or(f.oldPath, f.newPath)
	found := "the end of the file"
	if at >= 0 && at < len(lines) {
		found = quoteLine(lines[at])
	}
	if want == "" {
		return reason.Errorf(reason.PatchConflict, "%s: the hunk of patch line %d begins at line %d, which is before the end of the previous hunk or beyond the file's %d lines",
			quoteLine(name), h.line, h.oldStart, len(lines))
	}
	return reason.Errorf(reason.PatchConflict, "%s line %d: the hunk of patch line %d expects %s, the file has %s",
		quoteLine(name), at+1, h.line, quoteLine(want), found)
}
