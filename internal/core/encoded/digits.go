package encoded

import "iter"

// WrapFrom is the length of the shortest line, in characters, after which base64 and hexadecimal
// are assumed to continue in the next one. Encoders break lines at 60, 64 and 76; the last word of
// a line is shorter.
const WrapFrom = 16

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// sextets maps a character of base64 to its value plus 1, in both alphabets (RFC 4648 sections 4
// and 5).
var sextets = func() (table [256]byte) {
	for _, alphabet := range []string{alphanumeric + "+/", alphanumeric + "-_"} {
		for i := range len(alphabet) {
			table[alphabet[i]] = byte(i + 1)
		}
	}
	return table
}()

// base64Set holds the characters of base64, hexSet the characters of hexadecimal and of the
// separators before, between and after bytes.
var (
	base64Set = func() (s set) {
		for b, v := range sextets {
			s[b] = v > 0
		}
		return s
	}()
	hexSet = setOf(hexDigits + ` :,;-xX\` + "\t\r\n")
)

const hexDigits = "0123456789abcdefABCDEF"

// Dense reports whether a text may be the end of a line of base64, or of hexadecimal with
// colons.
func Dense(text []byte) bool {
	for _, b := range text {
		if !base64Set[b] && b != ':' {
			return false
		}
	}
	return true
}

// SpacedHex reports whether a text may be the end of a line of hexadecimal with blanks between
// bytes or words, such as od -An prints.
func SpacedHex(text []byte) bool {
	digits := 0
	for _, b := range text {
		if nibble(b) >= 0 {
			digits++
		} else if b != ' ' {
			return false
		}
	}
	return 2*digits >= len(text)
}

// Base64 decodes the stretches of a text that may be base64 of at least least bytes, with and
// without line ends. It yields four readings, because the searched text may follow characters
// that are not base64 or belong to another group. The byte other separates the decoded
// stretches. A reading is valid until the next one is yielded.
func Base64(text []byte, least int) iter.Seq[*Reading] {
	return func(yield func(*Reading) bool) {
		base64Code.readings(text, least, yield)
	}
}

// code is an encoding in which each character represents a few bits.
type code struct {
	chars *set
	// values maps a character to its value plus 1.
	values *[256]byte
	// width is the number of bits of a character. places is the number of characters after which a
	// character begins at a byte boundary again.
	width, places int
}

var base64Code = code{&base64Set, &sextets, 6, 4}

// readings decodes the stretches of a text that may be at least least bytes, and yields a
// reading for each position at which a byte may begin. It returns false if the consumer
// stopped.
func (c *code) readings(text []byte, least int, yield func(*Reading) bool) bool {
	digits := (least*8 + c.width - 1) / c.width
	start, end := c.chars.stretch(text, 0, digits)
	if start == end || len(text) > longest {
		return true
	}
	buffer := make([]byte, 0, (len(text)-start)*c.width/8+len(text)/digits+1)
	for skip := range c.places {
		read := func(s *sink) {
			for from, to := start, end; from < to; from, to = c.chars.stretch(text, to, digits) {
				to = c.chars.wrapped(text, from, to)
				c.unpack(s, text[:to], from, skip)
				s.add(other, to, to)
			}
		}
		if !yield(newReading(buffer, read)) {
			return false
		}
	}
	return true
}

// other separates decoded stretches.
const other = '\n'

// wrapped returns the end of a stretch that may continue on further lines.
func (s *set) wrapped(text []byte, start, end int) int {
	for end-start >= WrapFrom {
		next := end
		for next < len(text) && next < end+2 && (text[next] == '\r' || text[next] == '\n') {
			next++
		}
		if next == end {
			return end
		}
		for next < len(text) && text[next] == ' ' {
			next++ // as in YAML
		}
		if next == len(text) || !s[text[next]] {
			return end
		}
		for start, end = next, next; end < len(text) && s[text[end]]; {
			end++
		}
	}
	return end
}

// unpack decodes a text from start on, without the first skip characters of the encoding. It
// ignores characters outside the encoding.
func (c *code) unpack(s *sink, text []byte, start, skip int) {
	var bits uint
	var places [3]int // of the last three characters, newest first
	n := 0            // the number of bits not yet part of a byte
	for i := start; i < len(text); i++ {
		v := c.values[text[i]]
		if v == 0 {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		places = [3]int{i, places[0], places[1]}
		bits = bits<<c.width | uint(v-1)
		if n += c.width; n >= 8 {
			n -= 8
			// The byte begins in the character before, or in the one before that.
			s.add(byte(bits>>n), places[(n+7)/c.width], i+1)
		}
	}
}

// Hex decodes the stretches of a text that may be at least least bytes in hexadecimal, also
// with separators such as colons, blanks, line ends, 0x and \x. It yields two readings, because
// a byte may begin with either digit. A reading is valid until the next one is yielded.
func Hex(text []byte, least int) iter.Seq[*Reading] {
	return func(yield func(*Reading) bool) {
		start, end := hexSet.stretch(text, 0, 2*least)
		if start == end || len(text) > longest {
			return
		}
		buffer := make([]byte, 0, (len(text)-start)/2+len(text)/(2*least)+1)
		for skip := range 2 {
			read := func(s *sink) {
				for from, to := start, end; from < to; from, to = hexSet.stretch(text, to, 2*least) {
					unhex(s, text, from, to, skip)
					s.add(other, to, to)
				}
			}
			if !yield(newReading(buffer, read)) {
				return
			}
		}
	}
}

func unhex(s *sink, text []byte, start, end, skip int) {
	high, first := -1, 0
	for i := start; i < end; i++ {
		v := nibble(text[i])
		if v < 0 || text[i] == '0' && i+1 < end && text[i+1]|0x20 == 'x' {
			continue
		}
		switch {
		case skip > 0:
			skip--
		case high < 0:
			high, first = v, i
		default:
			s.add(byte(high<<4|v), first, i+1)
			high = -1
		}
	}
}

func nibble(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}
