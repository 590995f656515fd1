package canonical

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// Is reports whether text is one JSON value in RFC 8785 form. It has no size
// limit.
func Is(text []byte) bool {
	if plain(text) {
		return true
	}
	value := jsontext.Value(bytes.Clone(text))
	return value.Canonicalize() == nil && bytes.Equal(value, text)
}

// Valid reports whether text is one JSON value, in any form. It is fastest for text in RFC 8785
// form.
func Valid(text []byte) bool { return plain(text) || json.Valid(text) }

// AppendString appends a Go string as a JSON string in RFC 8785 form. Invalid
// UTF-8 is an error.
func AppendString(b []byte, s string) ([]byte, error) {
	from := len(b)
	b = append(append(b, '"'), s...)
	if straight(b[from+1:]) == len(s) {
		return append(b, '"'), nil
	}
	return jsontext.AppendQuote(b[:from], s)
}

// String reads a JSON string, quotes included.
func String(text []byte) (string, error) {
	raw, err := jsontext.AppendUnquote(nil, text)
	return string(raw), err
}

// ValueLength returns the length in bytes of the JSON value at the start of text.
func ValueLength(text []byte) (int, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	if err := dec.SkipValue(); err != nil {
		return 0, syntaxError(err)
	}
	return int(dec.InputOffset()), nil
}
