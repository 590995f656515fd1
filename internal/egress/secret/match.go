package secret

import (
	"bytes"
	"slices"
)

// needle is one text that is looked for, and what it stands for.
type needle struct {
	text []byte
	kind int
}

// matcher looks for many needles at once, after Wu and Manber, "A Fast
// Algorithm for Multi-Pattern Searching" (1994): the three bytes at the end of
// a window say how far the next place is where a needle can begin, which is
// about as far as the shortest needle is long.
type matcher struct {
	// needles are sorted by their text.
	needles []needle
	// least and most are the lengths of the shortest and longest needle.
	least, most int
	// shift is by the hash of a window's end, at counts needles whose window
	// ends so.
	shift [1 << hashBits]uint8
	at    map[uint32][]needle
	// begins are the first bytes of needles.
	begins [256]bool
}

const (
	hashBits = 13
	// block is how many bytes are looked at, and so the least length of a
	// needle.
	block = 3
)

func hash(b []byte) uint32 {
	return (uint32(b[0]) ^ uint32(b[1])<<3 ^ uint32(b[2])<<5) & (1<<hashBits - 1)
}

// newMatcher takes needles of three bytes and more. Of needles with the same
// text the first counts.
func newMatcher(needles []needle) *matcher {
	m := &matcher{at: make(map[uint32][]needle)}
	slices.SortStableFunc(needles, func(a, b needle) int { return bytes.Compare(a.text, b.text) })
	m.needles = slices.CompactFunc(needles, func(a, b needle) bool { return bytes.Equal(a.text, b.text) })
	m.least = len(m.needles[0].text)
	for _, n := range m.needles {
		m.least, m.most = min(m.least, len(n.text)), max(m.most, len(n.text))
		m.begins[n.text[0]] = true
	}
	farthest := min(m.least-block+1, 255)
	for i := range m.shift {
		m.shift[i] = uint8(farthest)
	}
	for _, n := range m.needles {
		m.place(n)
	}
	return m
}

func (m *matcher) place(n needle) {
	for end := block; end <= m.least; end++ {
		h := hash(n.text[end-block:])
		m.shift[h] = uint8(min(int(m.shift[h]), m.least-end))
		if end == m.least {
			m.at[h] = append(m.at[h], n)
		}
	}
}

// match is where a needle stands.
type match struct {
	start, end int
	kind       int
}

// find returns the first match that begins at from or later; of those that
// begin there, the longest.
func (m *matcher) find(b []byte, from int) (match, bool) {
	for end := from + m.least; end <= len(b); {
		h := hash(b[end-block:])
		if far := m.shift[h]; far > 0 {
			end += int(far)
			continue
		}
		start := end - m.least
		found := match{start: start, end: -1}
		for _, n := range m.at[h] {
			if start+len(n.text) > found.end && bytes.HasPrefix(b[start:], n.text) {
				found.end, found.kind = start+len(n.text), n.kind
			}
		}
		if found.end > 0 {
			return found, true
		}
		end++
	}
	return match{}, false
}

// held returns where the first needle may begin of which b has not the end
// yet; len(b) when there is none.
func (m *matcher) held(b []byte, from int) int {
	for start := max(from, len(b)-m.most+1); start < len(b); start++ {
		if m.begins[b[start]] && m.goesOn(b[start:]) {
			return start
		}
	}
	return len(b)
}

// goesOn reports whether a needle begins with b and is longer.
func (m *matcher) goesOn(b []byte) bool {
	i, _ := slices.BinarySearchFunc(m.needles, b, func(n needle, b []byte) int { return bytes.Compare(n.text, b) })
	if i < len(m.needles) && len(m.needles[i].text) == len(b) {
		i++ // the needle itself is there as a whole
	}
	return i < len(m.needles) && bytes.HasPrefix(m.needles[i].text, b)
}
