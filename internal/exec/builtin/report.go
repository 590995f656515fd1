package builtin

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// decode decodes the input of a proposal, which was validated against the schema.
func decode[T any](input json.RawMessage) (T, error) {
	var in T
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return in, reason.Errorf(reason.InvalidInput, "reading input: %w", err)
	}
	return in, nil
}

// begin returns the report of a builtin tool's call that starts now.
func begin(version string) tool.Report {
	return tool.Begin(tool.ExecutorInfo{Name: tool.Builtin, Version: version, Tier: "builtin"})
}

// The values of a field named encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// body is a byte string in a result: as text if it is valid text, otherwise as base64.
type body struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	// Exact holds the bytes as base64 if Content has replacement characters.
	Exact string `json:"content_base64,omitempty"`
}

// asBody encodes bytes. If data was truncated, a character split by the cut is dropped and does
// not make the data binary.
func asBody(data []byte, cut bool) body {
	if cut {
		data = trimEnd(data)
	}
	return encodeAs(data, isText(data))
}

// asOutput is like asBody, for data that is never written back. Text with a few invalid bytes is
// returned as text with replacement characters, plus the exact bytes as base64.
func asOutput(data []byte, cut bool) body {
	if cut {
		data = trimEnd(data)
	}
	if isText(data) || !mostlyText(data) {
		return encodeAs(data, isText(data))
	}
	return body{Content: replaced(data), Encoding: encodingText, Exact: encodeAs(data, false).Content}
}

// trimEnd drops an incomplete character at the end.
func trimEnd(data []byte) []byte {
	n := len(data)
	for back := 1; back <= min(utf8.UTFMax-1, n); back++ {
		if utf8.RuneStart(data[n-back]) {
			if !utf8.FullRune(data[n-back:]) {
				return data[:n-back]
			}
			break
		}
	}
	return data
}

// mostlyText reports whether data contains no NUL and at most a tenth of its bytes are invalid
// UTF-8, as in text of another encoding.
func mostlyText(data []byte) bool {
	wrong := 0
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == 0 {
			return false
		}
		if r == utf8.RuneError && size == 1 {
			wrong++
		}
		rest = rest[size:]
	}
	return 10*wrong <= len(data)
}

// replaced returns text with one replacement character for each invalid byte.
func replaced(data []byte) string { return string([]rune(string(data))) }

func isText(data []byte) bool {
	return utf8.Valid(data) && !strings.ContainsRune(string(data), 0)
}

func encodeAs(data []byte, text bool) body {
	if text {
		return body{Content: string(data), Encoding: encodingText}
	}
	return body{Content: base64.StdEncoding.EncodeToString(data), Encoding: encodingBase64}
}

// given decodes the bytes that a call passes either as text or as base64.
func given(text, encoded *string, name string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, reason.Errorf(reason.InvalidInput, "input has both %s and %s_base64; send one", name, name)
	case text != nil:
		return []byte(*text), nil
	case encoded == nil:
		return nil, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*encoded)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input at /%s_base64 is not base64 (RFC 4648 section 4): %w", name, err)
	}
	return data, nil
}

// subjectPart escapes text so that it cannot be mistaken for two parts of a subject.
func subjectPart(s string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C", "\n", "%0A", "\r", "%0D", "\t", "%09").Replace(s)
}
