package builtin

import (
	"encoding/base64"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// TestOutputThatIsNearlyText: text with a few invalid bytes is returned both as text and as
// exact bytes. Controls: valid text, which is returned once, and binary data.
func TestOutputThatIsNearlyText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ data, content string }{
		"text":            {"grün\n", "grün\n"},
		"Latin-1":         {"gr\xfcn ist die Farbe\n", "gr\ufffdn ist die Farbe\n"},
		"two in a row":    {"0123456789abcdefghi\xff\xfe", "0123456789abcdefghi\ufffd\ufffd"},
		"half a sequence": {"0123456789abcdefghi\xe2\x82", "0123456789abcdefghi\ufffd\ufffd"},
		"nothing":         {"", ""},
		"bytes":           {"\x89PNG\r\n\x1a\n\xff\xfe\xfd", ""},
		"with a NUL":      {"text \x00 text and more text", ""},
		"one byte":        {"\xff", ""},
	} {
		got := asOutput([]byte(c.data), false)
		wantText := c.content != "" || c.data == ""
		if (got.Encoding == encodingText) != wantText || wantText && got.Content != c.content {
			t.Errorf("%s: %+v", name, got)
		}
		exact := got.Exact
		if !wantText {
			exact = got.Content
		}
		if replaced := wantText && strings.Contains(c.content, "\ufffd"); (got.Exact != "") != replaced ||
			(replaced || !wantText) && string(must.Get(base64.StdEncoding.DecodeString(exact))(t)) != c.data {
			t.Errorf("%s: the exact bytes are %q", name, exact)
		}
	}
	out := streamOf(sandbox.Stream{Head: []byte("gr\xfcn ist die Farbe"), Tail: []byte("der Wiesen, sch\xf6n"), Truncated: true})
	if out.Encoding != encodingText || out.Tail != "der Wiesen, sch\ufffdn" || out.Exact == "" || string(must.Get(base64.StdEncoding.DecodeString(out.ExactTail))(t)) != "der Wiesen, sch\xf6n" {
		t.Errorf("both ends: %+v", out)
	}
	// A file is returned either as text or as bytes, because its content may be written back.
	if got := asBody([]byte("gr\xfcn ist die Farbe\n"), false); got.Encoding != encodingBase64 {
		t.Errorf("a file: %+v", got)
	}
}
