package encoded

import (
	"bytes"
	"iter"
	"slices"
)

// Dump decodes the hexadecimal dumps in a text, in the layouts of hexdump, xxd and od: an
// offset, groups of digits, and in some layouts the characters again. It yields two readings,
// because a group of several bytes may be in big-endian or little-endian order. The place of a
// byte ends at the end of its line, so that it includes the characters. A reading is valid
// until the next one is yielded.
func Dump(text []byte, least int) iter.Seq[*Reading] {
	return func(yield func(*Reading) bool) {
		lines := dumpLines(text)
		size := 0
		for _, line := range lines {
			size += line.size
		}
		if size < least {
			return
		}
		buffer := make([]byte, 0, size+len(lines))
		for _, reversed := range []bool{false, true} {
			read := func(s *sink) {
				end := -1
				for _, line := range lines {
					if line.start != end {
						s.add(other, line.start, line.start)
					}
					line.read(s, text, reversed)
					end = line.next
				}
			}
			if !yield(newReading(buffer, read)) {
				return
			}
		}
	}
}

// dumpLine is a line of a dump.
type dumpLine struct {
	// The positions of the line's start and end, and of the next line's start.
	start, end, next int
	offset           uint64
	groups           []place // of an even number of digits
	// size is the number of bytes in the line.
	size int
}

// dumpLines returns the lines of a text that are dumps.
func dumpLines(text []byte) (lines []dumpLine) {
	if len(text) > longest {
		return nil
	}
	for start := 0; start < len(text); {
		end, next := len(text), len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end, next = start+i, start+i+1
		}
		if line, ok := parseDumpLine(text, start, end); ok {
			line.next = next
			if n := len(lines); n > 0 && lines[n-1].next == start {
				lines[n-1].bound(line.offset)
			}
			lines = append(lines, line)
		}
		start = next
	}
	return lines
}

// bound removes the bytes of a line that lie beyond the offset of the next line: they are
// characters that look like digits. An offset in octal or decimal is too large to remove any.
func (l *dumpLine) bound(next uint64) {
	if next <= l.offset || next-l.offset >= uint64(l.size) {
		return
	}
	size := int(next - l.offset)
	for i, g := range l.groups {
		if size -= g.len() / 2; size <= 0 {
			l.groups[i].end += 2 * size
			l.groups = l.groups[:i+1]
			break
		}
	}
	l.size = int(next - l.offset)
}

// The bounds of the number of digits of an offset and of a group: xxd -g0 prints one group per
// line.
const (
	leastOffset, mostOffset = 4, 16
	mostGroup               = 512
	// halfLine is the number of bytes before the wider gap in the middle of a line of hexdump -C.
	halfLine = 8
)

// parseDumpLine parses text[start:end].
func parseDumpLine(text []byte, start, end int) (line dumpLine, ok bool) {
	at := start + blanks(text[start:end])
	digits := hexRun(text[at:end])
	if digits < leastOffset || digits > mostOffset {
		return line, false
	}
	line = dumpLine{start: start, end: end}
	for _, b := range text[at : at+digits] {
		line.offset = line.offset<<4 | uint64(nibble(b))
	}
	at += digits
	if at < end && text[at] == ':' {
		at++
	}
	gap := blanks(text[at:end])
	if gap == 0 {
		return line, false
	}
	for between := 0; ; {
		at += gap
		digits := hexRun(text[at:end])
		if digits == 0 || digits%2 != 0 || digits > mostGroup {
			break
		}
		line.groups = append(line.groups, place{at, at + digits})
		line.size += digits / 2
		at += digits
		gap = blanks(text[at:end])
		if gap == 0 {
			break
		}
		// A wider gap precedes the characters, except in the middle of a line.
		middle := line.size == halfLine && line.size == len(line.groups)
		if between == 0 {
			between = gap
		} else if gap > between && (!middle || gap > between+1) && !line.padded(text[at:end], gap-between, gap) {
			break
		}
	}
	return line, line.size > 0
}

// padded reports whether a text has, after a gap, a group with fewer digits than the first
// group, whose missing digits equal the additional width of the gap. xxd -e aligns its last
// group to the right.
func (l *dumpLine) padded(text []byte, wider, gap int) bool {
	digits := hexRun(text[gap:])
	return digits > 0 && digits+wider == l.groups[0].len()
}

// read adds the bytes of a line.
func (l *dumpLine) read(s *sink, text []byte, reversed bool) {
	for _, g := range l.groups {
		group := make([]byte, 0, mostGroup/2)
		for i := g.start; i < g.end; i += 2 {
			group = append(group, byte(nibble(text[i])<<4|nibble(text[i+1])))
		}
		if reversed {
			slices.Reverse(group)
		}
		for _, b := range group {
			s.add(b, g.start, l.end)
		}
	}
}

// blanks returns the number of blanks at the start of a text.
func blanks(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t")) }

// hexRun returns the number of hexadecimal digits at the start of a text.
func hexRun(text []byte) int {
	n := 0
	for n < len(text) && nibble(text[n]) >= 0 {
		n++
	}
	return n
}

// InDump reports whether a text ends with a line of a dump, without its line end.
func InDump(text []byte) bool {
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	_, ok := parseDumpLine(text, 0, len(text))
	return ok
}
