package encoded

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Unescape decodes, once, the escapes of URLs, JSON, string literals and HTML, and removes the
// NUL bytes of UTF-16. It reports whether the text contains any.
func Unescape(text []byte) (*Reading, bool) { return unescape(text, "%\\&\x00", escaped) }

// UnescapeURL decodes only the escapes of URLs.
func UnescapeURL(text []byte) (*Reading, bool) { return unescape(text, "%", escaped) }

// Unquote decodes the escapes and the soft line ends of quoted-printable (RFC 2045 section 6.7),
// and reports whether the text contains any. They are not part of Unescape, since an equals sign
// often precedes text that is not an escape.
func Unquote(text []byte) (*Reading, bool) { return unescape(text, "=", quoted) }

// decoder decodes the escape at a position. It returns the decoded bytes and the length of the
// escape, or 0 if no escape is there.
type decoder func(text []byte, at int) (is []byte, size int)

func unescape(text []byte, marks string, decode decoder) (*Reading, bool) {
	if len(text) > longest || !bytes.ContainsAny(text, marks) {
		return nil, false
	}
	mark, any := setOf(marks), false
	read := func(s *sink) {
		for i := 0; i < len(text); {
			if mark[text[i]] {
				if is, size := decode(text, i); size > 0 {
					for _, b := range is {
						s.add(b, i, i+size)
					}
					any, i = true, i+size
					continue
				}
			}
			s.add(text[i], i, i+1)
			i++
		}
	}
	return newReading(make([]byte, 0, len(text)), read), any
}

func escaped(text []byte, at int) ([]byte, int) {
	switch text[at] {
	case '%':
		return number(text[at:], 1, 2, 16)
	case '\\':
		return backslash(text[at:])
	case '&':
		return entity(text[at:])
	}
	return nil, wide(text, at)
}

// wide returns 1 for a NUL that is one of three NULs two bytes apart, else 0.
func wide(text []byte, at int) int {
	in := 0
	for i := at - 4; i <= at+4; i += 2 {
		if i < 0 || i >= len(text) || text[i] != 0 {
			in = 0
			continue
		}
		if in++; in == 3 {
			return 1
		}
	}
	return 0
}

func quoted(text []byte, at int) ([]byte, int) {
	text = text[at:]
	for _, end := range []string{"=\r\n", "=\n"} {
		if bytes.HasPrefix(text, []byte(end)) {
			return nil, len(end)
		}
	}
	return number(text, 1, 2, 16)
}

// number decodes a byte from its digits.
func number(text []byte, at, digits, base int) ([]byte, int) {
	if len(text) < at+digits {
		return nil, 0
	}
	n, err := strconv.ParseUint(string(text[at:at+digits]), base, 8)
	if err != nil {
		return nil, 0
	}
	return []byte{byte(n)}, at + digits
}

// character decodes a character from its digits.
func character(text []byte, at, digits, base, size int) ([]byte, int) {
	if digits <= 0 || len(text) < size {
		return nil, 0
	}
	n, err := strconv.ParseUint(string(text[at:at+digits]), base, 31)
	if err != nil || n > utf8.MaxRune {
		return nil, 0
	}
	return utf8.AppendRune(nil, rune(n)), size
}

// letters maps the letter of an escape to its character.
var letters = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '\\': '\\', '/': '/', '"': '"', '\'': '\'', '`': '`', '$': '$'}

func backslash(text []byte) ([]byte, int) {
	if len(text) < 2 {
		return nil, 0
	}
	switch c := text[1]; {
	case c == 'x' || c == 'X':
		return number(text, 2, 2, 16)
	case c == 'u' && len(text) > 2 && text[2] == '{':
		digits := bytes.IndexByte(text[:min(len(text), 12)], '}') - 3
		return character(text, 3, digits, 16, 4+digits)
	case c == 'u':
		return character(text, 2, 4, 16, 6)
	case c == 'U':
		return character(text, 2, 8, 16, 10)
	case c >= '0' && c <= '3':
		return number(text, 1, 3, 8)
	default:
		if is, ok := letters[c]; ok {
			return []byte{is}, 2
		}
	}
	return nil, 0
}

// names maps the named characters of HTML that are ASCII.
var names = map[string]byte{
	"quot": '"', "amp": '&', "apos": '\'', "lt": '<', "gt": '>', "nbsp": ' ', "Tab": '\t', "NewLine": '\n', "excl": '!', "num": '#',
	"dollar": '$', "percnt": '%', "lpar": '(', "rpar": ')', "ast": '*', "midast": '*', "plus": '+', "comma": ',', "period": '.', "sol": '/',
	"colon": ':', "semi": ';', "equals": '=', "quest": '?', "commat": '@', "lsqb": '[', "lbrack": '[', "bsol": '\\', "rsqb": ']', "rbrack": ']',
	"Hat": '^', "lowbar": '_', "UnderBar": '_', "grave": '`', "DiacriticalGrave": '`', "lcub": '{', "lbrace": '{', "verbar": '|', "vert": '|',
	"VerticalLine": '|', "rcub": '}', "rbrace": '}', "QUOT": '"', "AMP": '&', "LT": '<', "GT": '>',
}

// longestEntity is the length of the longest entity that is decoded, including "&" and ";".
const longestEntity = 20

func entity(text []byte) ([]byte, int) {
	end := bytes.IndexByte(text[:min(len(text), longestEntity)], ';')
	if end < 2 {
		return nil, 0
	}
	switch name := text[1:end]; {
	case name[0] == '#' && len(name) > 1 && name[1]|0x20 == 'x':
		return character(text, 3, end-3, 16, end+1)
	case name[0] == '#':
		return character(text, 2, end-2, 10, end+1)
	default:
		if is, ok := names[string(name)]; ok {
			return []byte{is}, end + 1
		}
	}
	return nil, 0
}
