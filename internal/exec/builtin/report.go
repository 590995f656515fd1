package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// decode reads the input of a proposal, which was checked against the schema.
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

// begin returns a report with what is known before a call runs.
func begin(version string) tool.Report {
	return tool.Report{
		Executor:    tool.ExecutorInfo{Name: tool.Builtin, Version: version, Tier: "builtin"},
		Enforcement: tool.Unenforced(),
		Egress:      tool.Egress{Mode: "strict", Allowed: []string{}, Observed: []tool.Connection{}},
		StartedAt:   time.Now().UTC(),
	}
}

// succeed ends a report with a result.
func succeed(r tool.Report, result any) tool.Report {
	text, err := canonical.Marshal(result)
	if err != nil {
		return r.Fail(context.Background(), reason.Errorf(reason.Internal, "encoding the result: %w", err))
	}
	r.Outcome, r.Result = tool.Succeeded, text
	return r.Finish()
}

// The values of a field named encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// body is bytes in a result: as text when they are text, else as base64.
type body struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	// Exact are the bytes as base64, where Content has replacement characters.
	Exact string `json:"content_base64,omitempty"`
}

// asBody encodes bytes. When data was cut, a character that the cut went
// through does not make it binary: it is left out.
func asBody(data []byte, cut bool) body {
	if cut {
		data = trimEnd(data)
	}
	return encodeAs(data, isText(data))
}

// asOutput is asBody for what is read and not written back. Bytes that are text but for a few are
// text with replacement characters, and come as base64 beside it.
func asOutput(data []byte, cut bool) body {
	if cut {
		data = trimEnd(data)
	}
	if isText(data) || !mostlyText(data) {
		return encodeAs(data, isText(data))
	}
	return body{Content: replaced(data), Encoding: encodingText, Exact: encodeAs(data, false).Content}
}

// trimEnd leaves out the beginning of a character that the cut went through.
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

// mostlyText reports whether at most a tenth of the bytes are not UTF-8, as in text in another
// encoding, and none is a NUL.
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

// replaced is text with one replacement character for each byte that is not UTF-8.
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

// given reads the bytes that a call passes either as text or as base64.
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

// subjectPart writes text so that it cannot be taken for two parts of a
// subject.
func subjectPart(s string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C", "\n", "%0A", "\r", "%0D", "\t", "%09").Replace(s)
}
