package text

import (
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]string{
		"":                                   nil,
		"''":                                 {""},
		"git status":                         {"git", "status"},
		`git commit -m 'it'\''s two words'`:  {"git", "commit", "-m", "it's two words"},
		`sh -c 'rm -rf $HOME; true'`:         {"sh", "-c", "rm -rf $HOME; true"},
		`echo "a\nb" "\x1b[2K" "\u202eoff"`:  {"echo", "a\nb", "\x1b[2K", "\u202eoff"},
		`printf 'naïve' '日本'`:                {"printf", "naïve", "日本"},
		"env A=b%1 http://h:1/x,y+z@2 '~/x'": {"env", "A=b%1", "http://h:1/x,y+z@2", "~/x"},
	} {
		if got := ShellQuote(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}

// FuzzQuote: different command lines have different quoted forms, and a word without special
// characters is not quoted.
func FuzzQuote(f *testing.F) {
	for _, pair := range [][2]string{{"a b", "a\x00b"}, {"a\x00", "a"}, {"'a' b", "'a'\x00b"}, {"'\\''", "''"}, {"\"a\\n\"", "a\n"}, {"a\x00'b c'", "a\x00b c"}, {"\u00ad", `"\u00ad"`}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		one, other := strings.Split(a, "\x00"), strings.Split(b, "\x00")
		if a != b && ShellQuote(one) == ShellQuote(other) {
			t.Errorf("%q and %q are both %s", one, other, ShellQuote(one))
		}
	})
}
