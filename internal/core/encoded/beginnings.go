package encoded

// Beginnings holds the first three bytes of the searched words, in lower and upper case. The
// zero value is empty.
type Beginnings struct {
	// Each bit represents the words with the same first three bytes. It is set for their first
	// byte in first, their second in second, and their third in third.
	first, second, third [256]uint32
	words                []string
}

// Add adds a word in lower case of at least three bytes. It panics beyond 32 different
// beginnings.
func (b *Beginnings) Add(word string) {
	word = word[:3]
	for _, known := range b.words {
		if known == word {
			return
		}
	}
	bit := uint32(1) << len(b.words)
	if bit == 0 {
		panic("encoded: more than 32 beginnings")
	}
	b.words = append(b.words, word)
	for i, place := range []*[256]uint32{&b.first, &b.second, &b.third} {
		place[word[i]] |= bit
		if c := word[i]; c >= 'a' && c <= 'z' {
			place[c-'a'+'A'] |= bit
		}
	}
}

// Next returns the first position in t, at or after from, where a word may begin, or -1. It
// compares only three bytes.
func Next[text string | []byte](b *Beginnings, t text, from int) int {
	var one, two uint32 // the words that may begin one and two bytes before this byte
	for i := from; i < len(t); i++ {
		c := t[i]
		if two&b.third[c] != 0 {
			return i - 2
		}
		one, two = b.first[c], one&b.second[c]
	}
	return -1
}

// MayHold checks, in one pass and without a copy, the bytes that Base64 would decode. It
// reports whether a word may begin in a reading, or whether a reading has a stretch that could
// be decoded as base64 again. It has false positives only at the ends of readings.
func MayHold(text []byte, least int, words *Beginnings) bool {
	if len(text) > longest {
		return false // Base64 does not decode it either
	}
	digits := (least*8 + 5) / 6
	for from, to := base64Set.stretch(text, 0, digits); from < to; from, to = base64Set.stretch(text, to, digits) {
		to = base64Set.wrapped(text, from, to)
		if words.mayStand(text[from:to], digits) {
			return true
		}
	}
	return false
}

// mayStand is MayHold for one stretch. The bytes of the four readings begin at even bit
// positions; bytes of three readings end within each character.
func (b *Beginnings) mayStand(text []byte, digits int) bool {
	var bits uint64
	// The length of the current run of base64 bytes in each reading, in the order in which the
	// readings' next bytes end.
	var one, two, three, four int
	for _, char := range text {
		v := sextets[char]
		if v == 0 {
			continue
		}
		bits = bits<<6 | uint64(v-1)
		if b.begin(bits>>4)|b.begin(bits>>2)|b.begin(bits) != 0 && b.at(bits>>4)|b.at(bits>>2)|b.at(bits) != 0 {
			return true
		}
		one, two, three, four = four, run(one, bits>>4), run(two, bits>>2), run(three, bits)
		if max(two, three, four) >= digits {
			return true
		}
	}
	return false
}

// begin returns the words whose first two bytes are the first two of the last three bytes.
func (b *Beginnings) begin(bits uint64) uint32 {
	return b.first[byte(bits>>16)] & b.second[byte(bits>>8)]
}

// at returns the words that begin with the last three bytes.
func (b *Beginnings) at(bits uint64) uint32 { return b.begin(bits) & b.third[byte(bits)] }

// run returns the length of a run of base64 bytes after one more byte.
func run(before int, bits uint64) int {
	if base64Set[byte(bits)] {
		return before + 1
	}
	return 0
}
