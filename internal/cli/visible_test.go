package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain":            "plain",
		"grüße 日本 🙂":       "grüße 日本 🙂",
		"a\x1b[31mb":       "a<U+001B>[31mb",
		"a\u202eb":         "a<U+202E>b",
		"a\u200b\ufeffb":   "a<U+200B><U+FEFF>b",
		"a\xffb":           "a<0xFF>b",
		"a\u00a0b":         "a<U+00A0>b",
		"a\u0085\u2028b":   "a<U+0085><U+2028>b",
		"\U000E0041":       "<U+E0041>",
		"\u3164\u2800":     "<U+3164><U+2800>",
		"a\nb":             "a<U+000A>b",
		"\ufffd":           "\ufffd",
		"e\u0301":          "e\u0301",
		"\u034f\ufe0f\x7f": "<U+034F><U+FE0F><U+007F>",
	} {
		if got := visibleLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := visibleText("a\n\tb\rc"); got != "a\n\tb<U+000D>c" {
		t.Errorf("lines: %q", got)
	}
}

// unsafe reports a character that a terminal acts on or does not show.
func unsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
		unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Variation_Selector, r))
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a", hostile, "\xff\x1b]8;;x\x07", "\u202e\u2066\u200f", strings.Repeat("\xf0\x9f", 3)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{visibleLine(s), visibleText(s)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, unsafe) {
				t.Fatalf("%q became %q", s, out)
			}
		}
		if strings.ContainsAny(visibleLine(s), "\n\t") {
			t.Fatalf("%q: a line has lines", s)
		}
		if plain(s) && visibleLine(s) != s {
			t.Fatalf("%q: plain text was changed", s)
		}
	})
}

func FuzzVisibleJSON(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, `{"a":"` + "\u202e\U000E0041\u007f" + `"}`, "[1,\r\n\t2]", `"` + "\u2028" + `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := visibleJSON(text)
		if strings.ContainsFunc(string(out), func(r rune) bool { return r == '\t' || unsafe(r) }) {
			t.Fatalf("%q became %q", text, out)
		}
		var before, after any
		if json.Unmarshal(text, &before) != nil {
			return
		}
		if err := json.Unmarshal(out, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q, another value: %v", text, out, err)
		}
	})
}

// FuzzTable: whatever is in a cell, a table has one line per record and
// nothing that a terminal acts on.
func FuzzTable(f *testing.F) {
	f.Add("a", hostile, 40)
	f.Add("日本語日本語日本語日本語", "\x1b[31m", 20)
	f.Fuzz(func(t *testing.T, first, second string, width int) {
		a := newApp(Streams{OutTerminal: true, Width: width, Getenv: func(string) string { return "" }})
		a.flags.noColor = true
		out := a.table(listing{columns: []string{"ONE", "TWO"}}, []record{{cells: []string{first, second}}})
		if strings.Count(out, "\n") != 2 || strings.ContainsFunc(out, func(r rune) bool { return r == '\t' || unsafe(r) }) {
			t.Fatalf("%q %q: %q", first, second, out)
		}
	})
}
