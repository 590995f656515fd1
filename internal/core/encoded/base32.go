package encoded

import "iter"

// base32Codes has the upper-case and the lower-case alphabet (RFC 4648 section 6).
var base32Codes = [...]code{
	base32Code("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), base32Code("abcdefghijklmnopqrstuvwxyz234567"),
}

func base32Code(alphabet string) code {
	chars, values := setOf(alphabet), new([256]byte)
	for i := range len(alphabet) {
		values[alphabet[i]] = byte(i + 1)
	}
	return code{&chars, values, 5, 8}
}

// Base32 is Base64 for base32. It reads upper-case and lower-case letters separately: encoders
// do not mix them, and many names do.
func Base32(text []byte, least int) iter.Seq[*Reading] {
	return func(yield func(*Reading) bool) {
		for i := range base32Codes {
			if !base32Codes[i].readings(text, least, yield) {
				return
			}
		}
	}
}
