package builtin

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	// diffContext is how many unchanged lines stand around a change.
	diffContext = 3
	// diffEdits is the most edits that the search for the shortest diff
	// spends; beyond it the middle is shown as replaced.
	diffEdits = 1000
	// previewBytes bounds the diffs of one preview.
	previewBytes = 256 << 10
)

// fileDiff is one file before and after. A nil side does not exist.
type fileDiff struct {
	oldPath, newPath string
	old, new         []byte
	oldMode, newMode string
}

// unified writes a diff that git apply takes. It is made from the bytes that
// will be written, not from what the caller sent.
func (d fileDiff) unified() string {
	if isBinary(d.old) || isBinary(d.new) {
		return fmt.Sprintf("Binary files %s and %s differ (%d bytes, then %d bytes)\n",
			diffName("a/", d.oldPath), diffName("b/", d.newPath), len(d.old), len(d.new))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git %s %s\n", diffName("a/", first(d.oldPath, d.newPath)), diffName("b/", first(d.newPath, d.oldPath)))
	if d.oldMode != "" && d.newMode != "" && d.oldMode != d.newMode {
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", d.oldMode, d.newMode)
	}
	switch {
	case d.oldPath == "":
		fmt.Fprintf(&b, "new file mode %s\n", first(d.newMode, "100644"))
	case d.newPath == "":
		fmt.Fprintf(&b, "deleted file mode %s\n", first(d.oldMode, "100644"))
	case d.oldPath != d.newPath:
		fmt.Fprintf(&b, "rename from %s\nrename to %s\n", diffName("", d.oldPath), diffName("", d.newPath))
	}
	hunks := diffHunks(splitLines(d.old), splitLines(d.new))
	if len(hunks) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", diffName("a/", d.oldPath), diffName("b/", d.newPath))
	for _, h := range hunks {
		h.write(&b)
	}
	return b.String()
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// diffName writes a path as git does: quoted when it holds what could be taken
// for something else.
func diffName(prefix, name string) string {
	if name == "" {
		return "/dev/null"
	}
	for _, r := range name {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f {
			return strconv.Quote(prefix + name)
		}
	}
	return prefix + name
}

// splitLines keeps the line ends.
func splitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

type diffOp struct {
	kind byte // ' ', '-' or '+'
	text string
}

type diffHunk struct {
	oldStart, newStart int
	ops                []diffOp
}

func (h diffHunk) write(b *strings.Builder) {
	var olds, news int
	for _, op := range h.ops {
		if op.kind != '+' {
			olds++
		}
		if op.kind != '-' {
			news++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(h.oldStart, olds), span(h.newStart, news))
	for _, op := range h.ops {
		b.WriteByte(op.kind)
		b.WriteString(op.text)
		if !strings.HasSuffix(op.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func span(start, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", start-1)
	case 1:
		return strconv.Itoa(start)
	}
	return fmt.Sprintf("%d,%d", start, count)
}

// diffHunks groups the edits with their context. Lines count from 1.
func diffHunks(old, new []string) []diffHunk {
	ops := diffOps(old, new)
	var hunks []diffHunk
	oldLine, newLine := 1, 1
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		// The hunk before, if any, ended before this: see hunkEnd.
		from := max(i-diffContext, 0)
		end := hunkEnd(ops, i)
		h := diffHunk{oldStart: oldLine - (i - from), newStart: newLine - (i - from), ops: ops[from:end]}
		hunks = append(hunks, h)
		for ; i < end; i++ {
			if ops[i].kind != '+' {
				oldLine++
			}
			if ops[i].kind != '-' {
				newLine++
			}
		}
	}
	return hunks
}

// hunkEnd returns the index after the hunk that has a change at i: changes
// with at most two contexts between them belong together.
func hunkEnd(ops []diffOp, i int) int {
	last := i
	for j := i; j < len(ops) && j-last <= 2*diffContext; j++ {
		if ops[j].kind != ' ' {
			last = j
		}
	}
	return min(last+1+diffContext, len(ops))
}

// diffOps is the list of kept, removed and added lines.
func diffOps(old, new []string) []diffOp {
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	ops := make([]diffOp, 0, len(old)+len(new))
	for _, line := range old[:head] {
		ops = append(ops, diffOp{' ', line})
	}
	ops = append(ops, diffMiddle(old[head:len(old)-tail], new[head:len(new)-tail])...)
	for _, line := range old[len(old)-tail:] {
		ops = append(ops, diffOp{' ', line})
	}
	return ops
}

// diffMiddle is Myers' greedy algorithm (An O(ND) Difference Algorithm, 1986).
func diffMiddle(old, new []string) []diffOp {
	trace, ok := myers(old, new)
	if !ok {
		return replaceAll(old, new)
	}
	x, y := len(old), len(new)
	var reversed []diffOp
	for d := len(trace) - 1; d > 0; d-- {
		v, k := trace[d-1], x-y
		fromK := k - 1
		if k == -d || k != d && v[at(k-1, d)] < v[at(k+1, d)] {
			fromK = k + 1
		}
		fromX := v[at(fromK, d)]
		fromY := fromX - fromK
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			reversed = append(reversed, diffOp{' ', old[x]})
		}
		if fromK == k+1 {
			y--
			reversed = append(reversed, diffOp{'+', new[y]})
		} else {
			x--
			reversed = append(reversed, diffOp{'-', old[x]})
		}
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		reversed = append(reversed, diffOp{' ', old[x]})
	}
	ops := make([]diffOp, 0, len(reversed))
	for i := len(reversed) - 1; i >= 0; i-- {
		ops = append(ops, reversed[i])
	}
	return ops
}

// at is the place of diagonal k in the frontier that step d reads, which has
// room for the diagonals -d to d.
func at(k, d int) int { return k + d }

// myers returns, for each number of edits, the frontier it started from: the
// furthest x on every diagonal.
func myers(old, new []string) ([][]int, bool) {
	most := min(len(old)+len(new), diffEdits)
	frontier := map[int]int{1: 0}
	var trace [][]int
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			if k == -d || k != d && frontier[k-1] < frontier[k+1] {
				x = frontier[k+1]
			} else {
				x = frontier[k-1] + 1
			}
			y := x - k
			for x < len(old) && y < len(new) && old[x] == new[y] {
				x, y = x+1, y+1
			}
			frontier[k] = x
			if x >= len(old) && y >= len(new) {
				return append(trace, nil), true
			}
		}
		// The next step, d+1, reads the diagonals -(d+1) to d+1.
		kept := make([]int, 2*(d+1)+1)
		for k := -d - 1; k <= d+1; k++ {
			kept[at(k, d+1)] = frontier[k]
		}
		trace = append(trace, kept)
	}
	return nil, false
}

func replaceAll(old, new []string) []diffOp {
	ops := make([]diffOp, 0, len(old)+len(new))
	for _, line := range old {
		ops = append(ops, diffOp{'-', line})
	}
	for _, line := range new {
		ops = append(ops, diffOp{'+', line})
	}
	return ops
}

// previewDiff joins the diffs of a call and says when it leaves something out.
func previewDiff(diffs []fileDiff) (text string, notes []string) {
	var b bytes.Buffer
	for _, d := range diffs {
		b.WriteString(d.unified())
	}
	if b.Len() <= previewBytes {
		return b.String(), nil
	}
	cut := b.Bytes()[:previewBytes]
	if i := bytes.LastIndexByte(cut, '\n'); i >= 0 {
		cut = cut[:i+1]
	}
	return string(cut), []string{fmt.Sprintf("The diff has %d bytes and is cut after %d; the arguments of the call are complete.", b.Len(), len(cut))}
}
