package secret

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"slices"
)

// needle is one text to search for, and its meaning.
type needle struct {
	text []byte
	kind int
}

// matcher searches for many needles at once, in a time that does not depend on whether a text
// begins like a needle. Otherwise the speed of a stream of guesses would reveal the values.
// Each byte takes the same time: it is added to one hash for each window length, from which
// older bytes are shifted out. A needle is compared only if a hash equals the hash of its end,
// over the largest window that fits into the needle. A guess causes a comparison only if it
// contains the last characters of a value: about ten at once, or five for a needle shorter than
// eleven.
type matcher struct {
	needles []needle
	// most is the length of the longest needle.
	most int
	// random makes the hashes of bytes unpredictable.
	random [256]uint64
	// ends maps the hash over a window to the windows in which a needle may end: bit i is for
	// windows[i].
	ends [1 << hashBits]uint8
	at   [len(windows)]map[uint32][]needle
}

const (
	hashBits = 14
	down     = 64 - hashBits
)

// windows are the lengths of the hashed windows. Each byte shifts the hash over n bytes by 64/n
// bits.
var windows = [...]int{8, 16, 32, 64}

// newMatcher returns a matcher for needles of at least eight bytes. If several needles have the
// same text, the first applies.
func newMatcher(needles []needle) *matcher {
	m := &matcher{}
	slices.SortStableFunc(needles, func(a, b needle) int { return bytes.Compare(a.text, b.text) })
	m.needles = slices.CompactFunc(needles, func(a, b needle) bool { return bytes.Equal(a.text, b.text) })
	var seed [8 * len(m.random)]byte
	_, _ = rand.Read(seed[:]) // never fails
	for i := range m.random {
		m.random[i] = binary.NativeEndian.Uint64(seed[8*i:])
	}
	for _, n := range m.needles {
		m.most = max(m.most, len(n.text))
		m.add(n)
	}
	return m
}

func (m *matcher) add(n needle) {
	which := 0
	for which+1 < len(windows) && windows[which+1] <= len(n.text) {
		which++
	}
	var h uint64
	for _, c := range n.text[len(n.text)-windows[which]:] {
		h = h<<(64/windows[which]) + m.random[c]
	}
	m.ends[h>>down] |= 1 << which
	if m.at[which] == nil {
		m.at[which] = make(map[uint32][]needle)
	}
	key := uint32(h >> 32)
	m.at[which][key] = append(m.at[which][key], n)
}

// match is the position of a needle.
type match struct {
	start, end int
	kind       int
}

// all returns every match in a text.
func (m *matcher) all(b []byte) (found []match) {
	var h hashes
	for end := 0; ; {
		more := m.pass(&h, b[end:])
		if more == 0 {
			return found
		}
		end += more
		for i, window := range h {
			if m.ends[window>>down]>>i&1 == 0 {
				continue
			}
			for _, n := range m.at[i][uint32(window>>32)] {
				if start := end - len(n.text); start >= 0 && subtle.ConstantTimeCompare(b[start:end], n.text) == 1 {
					found = append(found, match{start, end, n.kind})
				}
			}
		}
	}
}

// hashes are the hashes over the windows that end at the current position in a text.
type hashes [len(windows)]uint64

// pass reads b up to a possible end of a needle and returns the number of bytes, or 0 if no needle
// ends.
func (m *matcher) pass(h *hashes, b []byte) int {
	h0, h1, h2, h3 := h[0], h[1], h[2], h[3]
	for i, c := range b {
		r := m.random[c]
		h0, h1, h2, h3 = h0<<8+r, h1<<4+r, h2<<2+r, h3<<1+r
		if m.ends[h0>>down]&1|m.ends[h1>>down]&2|m.ends[h2>>down]&4|m.ends[h3>>down]&8 != 0 {
			*h = hashes{h0, h1, h2, h3}
			return i + 1
		}
	}
	return 0
}
