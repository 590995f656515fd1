package printer_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":            "plain",
		"grüße 日本 🙂":       "grüße 日本 🙂",
		"a\x1b[31mb":       "a\\u{1b}[31mb",
		"a\u202eb":         "a\\u{202e}b",
		"a\u200b\ufeffb":   "a\\u{200b}\\u{feff}b",
		"a\xffb":           "a\\x{ff}b",
		"a\u00a0b":         "a\\u{a0}b",
		"a\u0085\u2028b":   "a\\u{85}\\u{2028}b",
		"\U000E0041":       "\\u{e0041}",
		"\u3164\u2800":     "\\u{3164}\\u{2800}",
		"a\nb":             "a\\u{a}b",
		"\ufffd":           "\ufffd",
		"e\u0301":          "e\u0301",
		"\u034f\ufe0f\x7f": "\\u{34f}\\u{fe0f}\\u{7f}",
	} {
		if got := printer.VisibleLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := printer.VisibleText("a\n\tb\rc"); got != "a\n\tb\\u{d}c" {
		t.Errorf("lines: %q", got)
	}
}

// TestOneFormOfTheInvisible: the gateway and the CLI escape invisible characters in the same
// form, and escaping twice changes nothing.
func TestOneFormOfTheInvisible(t *testing.T) {
	t.Parallel()
	// Each character is escaped separately, so that a whole block can be checked first.
	const block = 1 << 8
	for first := rune(0); first <= unicode.MaxRune; first += block {
		var all strings.Builder
		for r := first; r < first+block; r++ {
			all.WriteRune(r)
		}
		s := all.String()
		if v := printer.VisibleText(s); printer.VisibleText(v) != v {
			t.Errorf("%U to %U: some are written twice", first, first+block-1)
		}
		if text.Visible(s) == s {
			continue
		}
		for r := first; r < first+block; r++ {
			one := string(r)
			if once := text.Visible(one); once != one && printer.VisibleText(one) != once {
				t.Errorf("%U: %q and %q", r, once, printer.VisibleText(one))
			}
		}
	}
	if got := text.Visible("a\xff"); printer.VisibleText("a\xff") != got {
		t.Errorf("no UTF-8: %q", got)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a", clitest.Hostile, "\xff\x1b]8;;x\x07", "\u202e\u2066\u200f", strings.Repeat("\xf0\x9f", 3)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{printer.VisibleLine(s), printer.VisibleText(s)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, clitest.Unsafe) {
				t.Fatalf("%q became %q", s, out)
			}
		}
		if strings.ContainsAny(printer.VisibleLine(s), "\n\t") {
			t.Fatalf("%q: a line has lines", s)
		}
		printable := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
		if printable && printer.VisibleLine(s) != s {
			t.Fatalf("%q: plain text was changed", s)
		}
	})
}

// TestVisibleJSONOfLookalikes: letters of other scripts are escaped only in words of mixed
// scripts.
func TestVisibleJSONOfLookalikes(t *testing.T) {
	t.Parallel()
	in := "{\"mixed\":\"\u0430gent\",\"one\":\"\u0441\u043e\u0440\"}"
	want := "{\"mixed\":\"\\u0430gent\",\"one\":\"\u0441\u043e\u0440\"}"
	if got := string(printer.VisibleJSON([]byte(in))); got != want {
		t.Errorf("%s became %s, want %s", in, got, want)
	}
}

func FuzzVisibleJSON(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, `{"a":"` + "\u202e\U000E0041\u007f" + `"}`, "[1,\r\n\t2]", `"` + "\u2028" + `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := printer.VisibleJSON(text)
		if strings.ContainsFunc(string(out), func(r rune) bool { return r == '\t' || clitest.Unsafe(r) }) {
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

// FuzzTable: for any content of its cells, a table has one line per record and no control
// characters.
func FuzzTable(f *testing.F) {
	f.Add("a", clitest.Hostile, 40)
	f.Add("日本語日本語日本語日本語", "\x1b[31m", 20)
	f.Fuzz(func(t *testing.T, first, second string, width int) {
		a := printer.New(printer.Streams{OutTerminal: true, Width: width, Getenv: func(string) string { return "" }})
		a.NoColor = true
		out := a.Table(printer.Listing{Columns: []string{"ONE", "TWO"}}, []printer.Record{{Cells: []string{first, second}}})
		if strings.Count(out, "\n") != 2 || strings.ContainsFunc(out, func(r rune) bool { return r == '\t' || clitest.Unsafe(r) }) {
			t.Fatalf("%q %q: %q", first, second, out)
		}
	})
}
