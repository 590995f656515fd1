package encoded

import "iter"

// quintets has 1 more than what a character of base32 stands for (RFC 4648 section 6), in
// capital and in small letters.
var quintets = func() (table [256]byte) {
	for _, alphabet := range base32Alphabets {
		for i := range len(alphabet) {
			table[alphabet[i]] = byte(i + 1)
		}
	}
	return table
}()

var (
	base32Alphabets = [...]string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "abcdefghijklmnopqrstuvwxyz234567"}
	base32Sets      = [...]set{setOf(base32Alphabets[0]), setOf(base32Alphabets[1])}
)

// base32Places is how many characters of base32 end where a byte ends, at the first time.
const base32Places = 8

// Base32 is Base64 for base32. It reads capital letters and small ones apart, since no
// encoder mixes them and many names do, and each eight times.
func Base32(text []byte, least int) iter.Seq[*Reading] {
	digits := (least*8 + 4) / 5
	return func(yield func(*Reading) bool) {
		for i := range base32Sets {
			if !base32Sets[i].unbase32(text, digits, yield) {
				return
			}
		}
	}
}

// unbase32 yields what the stretches of a set say, and reports whether more is wanted.
func (s *set) unbase32(text []byte, digits int, yield func(*Reading) bool) bool {
	start, end := s.stretch(text, 0, digits)
	if start == end || len(text) > longest {
		return true
	}
	buffer := make([]byte, 0, (len(text)-start)*5/8+len(text)/digits+1)
	for skip := range base32Places {
		read := func(out *sink) {
			for from, to := start, end; from < to; from, to = s.stretch(text, to, digits) {
				to = s.wrapped(text, from, to)
				unpack(out, text[:to], from, skip, 5, &quintets)
				out.add(other, to, to)
			}
		}
		if !yield(newReading(buffer, read)) {
			return false
		}
	}
	return true
}
