package encoded

// Beginnings are the first three bytes of words that are looked for, in small and in
// capital letters. The zero value has none.
type Beginnings struct {
	// A bit is for the words that begin alike: a byte has it at each of the three
	// places where it stands in them.
	first, second, third [256]uint32
	words                []string
}

// Add adds a word in small letters that has three bytes at least.
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

// Next returns the next position in a text, from from on, at which a word may begin, judged by
// three bytes, or -1.
func Next[text string | []byte](b *Beginnings, t text, from int) int {
	var one, two uint32 // the words that one and two bytes before this one begin
	for i := from; i < len(t); i++ {
		c := t[i]
		if two&b.third[c] != 0 {
			return i - 2
		}
		one, two = b.first[c], one&b.second[c]
	}
	return -1
}

// MayHold looks at what Base64 would read, in one pass and without a copy. It reports
// whether a word may begin in one of the readings, or a stretch that Base64 would read
// again. It may be wrong at the ends of the readings alone, and then says yes.
func MayHold(text []byte, least int, words *Beginnings) bool {
	if len(text) > longest {
		return false // nor does Base64
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

// mayStand is MayHold for one stretch. The four readings have their bytes where an even
// number of bits stands before them: three of them end within each character.
func (b *Beginnings) mayStand(text []byte, digits int) bool {
	var bits uint64
	// These are how many bytes were base64 until now, of each reading, in the order in
	// which their next bytes end.
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

// begin are the words that begin with the first two of the last three bytes.
func (b *Beginnings) begin(bits uint64) uint32 {
	return b.first[byte(bits>>16)] & b.second[byte(bits>>8)]
}

// at returns the words that begin with all three bytes.
func (b *Beginnings) at(bits uint64) uint32 { return b.begin(bits) & b.third[byte(bits)] }

// run is how many bytes of base64 there are with one more.
func run(before int, bits uint64) int {
	if base64Set[byte(bits)] {
		return before + 1
	}
	return 0
}
