package metrics

import (
	"bytes"

	"palyra/internal/canonical"
)

// Of the payloads of each call, which have some thousand bytes, a few words count. So
// these find those words and decode nothing else. They take the journal at its word that
// a payload is one JSON object in RFC 8785 form, and prove nothing of it.

// each calls fn with the members of an object, and reports whether it is one.
func each(object []byte, fn func(name, value []byte)) bool {
	rest, ok := bytes.CutPrefix(object, []byte("{"))
	for first := true; ok; first = false {
		if string(rest) == "}" {
			return true
		}
		if !first {
			if rest, ok = bytes.CutPrefix(rest, []byte(",")); !ok {
				break
			}
		}
		n := textLength(rest)
		if n == 0 || n == len(rest) || rest[n] != ':' {
			break
		}
		name := rest[1 : n-1]
		rest = rest[n+1:]
		n = valueLength(rest)
		if n == 0 {
			break
		}
		fn(name, rest[:n])
		rest = rest[n:]
	}
	return false
}

// within is each for the object that is a member of an object. One without the member
// counts as one in which it is empty.
func within(object []byte, member string, fn func(name, value []byte)) bool {
	inner := []byte("{}")
	return each(object, func(name, value []byte) {
		if string(name) == member {
			inner = value
		}
	}) && each(inner, fn)
}

// textOf is the text of a member of an object, "" when it has none.
func textOf(object []byte, member string) (out string) {
	each(object, func(name, value []byte) {
		if string(name) == member {
			out = text(value)
		}
	})
	return out
}

// text is what a JSON string says, "" for another value.
func text(value []byte) string {
	if textLength(value) == 0 {
		return ""
	}
	if !bytes.ContainsRune(value, '\\') {
		return string(value[1 : len(value)-1])
	}
	out, err := canonical.String(value)
	if err != nil {
		return ""
	}
	return out
}

// textLength is the length of the JSON string that text begins with, 0 when there is
// none.
func textLength(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; ; {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return 0
		}
		i += n + 1
		escapes := i - 2
		for text[escapes] == '\\' {
			escapes--
		}
		if (i-2-escapes)%2 == 0 {
			return i
		}
	}
}

// valueLength is the length of the JSON value that text begins with, 0 when there is
// none.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			n := textLength(text[i:])
			if n == 0 {
				return 0
			}
			i += n
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return 0
			}
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
			continue
		default:
			i += wordLength(text[i:])
		}
		if depth == 0 {
			return i
		}
	}
	return 0
}

// wordLength is the length of the number or literal that text begins with.
func wordLength(text []byte) int {
	for i, c := range text {
		switch c {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return len(text)
}
