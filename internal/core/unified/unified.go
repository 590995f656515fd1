// Package unified writes the difference between two versions of a file in git's format, which `git
// apply` accepts.
package unified

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// contextLines is the number of unchanged lines around a change.
	contextLines = 3
	// mostEdits limits the search for the shortest diff. Beyond it, the middle is output as
	// replaced.
	mostEdits = 1000
	// sniffed is the number of bytes inspected to detect a binary file, as in git.
	sniffed = 8000
)

// File is one file before and after. A side without a path does not exist.
type File struct {
	OldPath, NewPath string
	Old, New         []byte
	// OldMode and NewMode are modes as git writes them; "" means "100644".
	OldMode, NewMode string
}

// Diff returns the difference; for text files, `git apply` accepts it.
func (d File) Diff() string {
	if Binary(d.Old) || Binary(d.New) {
		return fmt.Sprintf("Binary files %s and %s differ (%d bytes, then %d bytes)\n",
			quoted("a/", d.OldPath), quoted("b/", d.NewPath), len(d.Old), len(d.New))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git %s %s\n", quoted("a/", cmp.Or(d.OldPath, d.NewPath)), quoted("b/", cmp.Or(d.NewPath, d.OldPath)))
	if d.OldMode != "" && d.NewMode != "" && d.OldMode != d.NewMode {
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", d.OldMode, d.NewMode)
	}
	switch {
	case d.OldPath == "":
		fmt.Fprintf(&b, "new file mode %s\n", cmp.Or(d.NewMode, "100644"))
	case d.NewPath == "":
		fmt.Fprintf(&b, "deleted file mode %s\n", cmp.Or(d.OldMode, "100644"))
	case d.OldPath != d.NewPath:
		fmt.Fprintf(&b, "rename from %s\nrename to %s\n", quoted("", d.OldPath), quoted("", d.NewPath))
	}
	found := hunks(Lines(d.Old), Lines(d.New))
	if len(found) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", quoted("a/", d.OldPath), quoted("b/", d.NewPath))
	for _, h := range found {
		h.write(&b)
	}
	return b.String()
}

// quoted writes a path as git does: quoted if it contains ambiguous characters.
func quoted(prefix, name string) string {
	if name == "" {
		return "/dev/null"
	}
	for _, r := range name {
		if !strconv.IsPrint(r) || r == '"' || r == '\\' || r == utf8.RuneError {
			return strconv.Quote(prefix + name)
		}
	}
	return prefix + name
}

// Lines splits a text and keeps the line ends.
func Lines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

type edit struct {
	kind byte // ' ', '-' or '+'
	text string
}

type hunk struct {
	oldStart, newStart int
	ops                []edit
}

func (h hunk) write(b *strings.Builder) {
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

// hunks groups the edits with their context. Line numbers start at 1.
func hunks(old, new []string) []hunk {
	ops := edits(old, new)
	var found []hunk
	oldLine, newLine := 1, 1
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		// The previous hunk, if any, ended before this line: see hunkEnd.
		from := max(i-contextLines, 0)
		end := hunkEnd(ops, i)
		h := hunk{oldStart: oldLine - (i - from), newStart: newLine - (i - from), ops: ops[from:end]}
		found = append(found, h)
		for ; i < end; i++ {
			if ops[i].kind != '+' {
				oldLine++
			}
			if ops[i].kind != '-' {
				newLine++
			}
		}
	}
	return found
}

// hunkEnd returns the index after the hunk that has a change at i. Changes with at most twice
// contextLines between them are in the same hunk.
func hunkEnd(ops []edit, i int) int {
	last := i
	for j := i; j < len(ops) && j-last <= 2*contextLines; j++ {
		if ops[j].kind != ' ' {
			last = j
		}
	}
	return min(last+1+contextLines, len(ops))
}

// edits returns the list of kept, removed and added lines.
func edits(old, new []string) []edit {
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	ops := make([]edit, 0, len(old)+len(new))
	for _, line := range old[:head] {
		ops = append(ops, edit{' ', line})
	}
	ops = append(ops, middle(old[head:len(old)-tail], new[head:len(new)-tail])...)
	for _, line := range old[len(old)-tail:] {
		ops = append(ops, edit{' ', line})
	}
	return ops
}

// middle computes edits with Myers' greedy algorithm (An O(ND) Difference Algorithm, 1986).
func middle(old, new []string) []edit {
	trace, ok := myers(old, new)
	if !ok {
		return replaceAll(old, new)
	}
	x, y := len(old), len(new)
	var reversed []edit
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
			reversed = append(reversed, edit{' ', old[x]})
		}
		if fromK == k+1 {
			y--
			reversed = append(reversed, edit{'+', new[y]})
		} else {
			x--
			reversed = append(reversed, edit{'-', old[x]})
		}
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		reversed = append(reversed, edit{' ', old[x]})
	}
	ops := make([]edit, 0, len(reversed))
	for i := len(reversed) - 1; i >= 0; i-- {
		ops = append(ops, reversed[i])
	}
	return ops
}

// at returns the index of diagonal k in the frontier of step d, which has room for the
// diagonals -d to d.
func at(k, d int) int { return k + d }

// myers returns the frontier at the start of each step, which is the furthest x on every
// diagonal. It returns false if more than mostEdits edits are necessary.
func myers(old, new []string) ([][]int, bool) {
	most := min(len(old)+len(new), mostEdits)
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

func replaceAll(old, new []string) []edit {
	ops := make([]edit, 0, len(old)+len(new))
	for _, line := range old {
		ops = append(ops, edit{'-', line})
	}
	for _, line := range new {
		ops = append(ops, edit{'+', line})
	}
	return ops
}

// Binary reports whether data is binary: it has a NUL among the first bytes.
func Binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), sniffed)], 0) >= 0
}
