package canonical

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Is reports whether text is one JSON value in RFC 8785 form. It has no size
// limit.
func Is(text []byte) bool {
	if out, ok := rewrite(text); ok {
		return bytes.Equal(out, text)
	}
	value := jsontext.Value(bytes.Clone(text))
	return value.Canonicalize() == nil && bytes.Equal(value, text)
}

// AppendString appends a Go string as a JSON string in RFC 8785 form. Invalid
// UTF-8 is an error.
func AppendString(b []byte, s string) ([]byte, error) { return jsontext.AppendQuote(b, s) }

// String reads a JSON string, quotes included.
func String(text []byte) (string, error) {
	raw, err := jsontext.AppendUnquote(nil, text)
	return string(raw), err
}

// ValueLength returns the length in bytes of the JSON value that text begins
// with.
func ValueLength(text []byte) (int, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	if err := dec.SkipValue(); err != nil {
		return 0, syntaxError(err)
	}
	return int(dec.InputOffset()), nil
}
