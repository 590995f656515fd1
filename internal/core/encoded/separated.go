package encoded

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
)

// mostSeparators is the highest number of consecutive separators between two groups, such as a
// comma with a blank, or a line end with indentation. leastGroups is the lowest number of
// consecutive groups of equal length: few texts have that many by chance.
const (
	mostSeparators = 4
	leastGroups    = 2
)

// Joined yields the parts of a text that may be base64 or hexadecimal in groups of equal length,
// without the separators between the groups. A separator is neither a letter nor a digit and not in
// the alphabet of base64. It yields one reading for each of the two alphabets (RFC 4648 sections 4
// and 5), with other between two parts. A part includes the groups before and after the groups of
// equal length, which may be shorter. A reading is valid until the next one is yielded.
func Joined(text []byte, least int) iter.Seq[*Reading] {
	digits := (least*8 + 5) / 6
	return func(yield func(*Reading) bool) {
		if len(text) > longest {
			return
		}
		var before []place
		for i := range joinedSets {
			keep := &joinedSets[i]
			stretches := keep.grouped(text, digits)
			stretches = slices.DeleteFunc(stretches, func(p place) bool { return alike(text, p, before) })
			before = stretches
			if len(stretches) == 0 {
				continue
			}
			size := len(stretches)
			for _, stretch := range stretches {
				size += stretch.len()
			}
			read := func(s *sink) {
				for _, stretch := range stretches {
					keep.join(s, text, stretch)
					s.add(other, stretch.end, stretch.end)
				}
			}
			if !yield(newReading(make([]byte, 0, size), read)) {
				return
			}
		}
	}
}

var joinedSets = [...]set{setOf(alphanumeric + "+/"), setOf(alphanumeric + "-_")}

// alike reports whether a stretch is also one of the other alphabet and has no character in which
// the two alphabets differ. before is sorted.
func alike(text []byte, stretch place, before []place) bool {
	_, found := slices.BinarySearchFunc(before, stretch, func(a, b place) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	return found && !bytes.ContainsAny(text[stretch.start:stretch.end], "+/-_")
}

// place is a part of a text.
type place struct{ start, end int }

func (p place) len() int { return p.end - p.start }

// join adds the bytes of a stretch that are in the set.
func (s *set) join(out *sink, text []byte, stretch place) {
	for i := stretch.start; i < stretch.end; i++ {
		if s[text[i]] {
			out.add(text[i], i, i+1)
		}
	}
}

// grouped returns the stretches of a text in which groups of bytes of the set have equal
// length, with the groups before and after them, which may be shorter.
func (s *set) grouped(text []byte, digits int) (stretches []place) {
	var stretch, before place // the current stretch, and its last group
	equal, length := 1, 0     // groups of equal length, and bytes of all groups
	keep := func() {
		// Pairs of short words in prose also have equal length, and are not a stretch.
		if regular := equal * before.len(); equal >= leastGroups && regular >= digits*3/4 && length >= digits {
			stretches = append(stretches, stretch)
		}
	}
	for group := s.group(text, 0); group.len() > 0; group = s.group(text, group.end) {
		size, sizeBefore := group.len(), before.len()
		near := before.end > 0 && group.start-before.end <= mostSeparators
		if near {
			stretch.end = group.end
			length += size
		}
		if near && size == sizeBefore {
			equal++
			before = group
			continue
		}
		keep()
		// The last group of a stretch may be the first one of the next.
		if near {
			stretch, length = place{before.start, group.end}, sizeBefore+size
		} else {
			stretch, length = group, size
		}
		before, equal = group, 1
	}
	keep()
	return stretches
}

// group returns the next group of bytes of the set, from at on.
func (s *set) group(text []byte, at int) place {
	for at < len(text) && !s[text[at]] {
		at++
	}
	start := at
	for at < len(text) && s[text[at]] {
		at++
	}
	return place{start, at}
}
