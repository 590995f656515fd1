package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""},
		{"aé", 2, "a"}, {"éa", 2, "é"}, {"é", 1, ""}, {"€", 2, ""}, {"a😀", 4, "a"}, {"a😀", 5, "a😀"},
		{"\xa9\xa9\xa9\xa9\xa9\xa9\xa9", 5, "\xa9\xa9\xa9\xa9\xa9"},
	} {
		if got := Clip(c.text, c.most); got != c.want {
			t.Errorf("To(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
	if got := Ellipsis("aéb", 2); got != "a..." {
		t.Errorf("%q", got)
	}
	if got := Ellipsis("aéb", 4); got != "aéb" {
		t.Errorf("%q", got)
	}
}

func FuzzTo(f *testing.F) {
	f.Add("aé€😀", 3)
	f.Add(strings.Repeat("\x80", 9), 4)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 0 || most > len(text) {
			return
		}
		got := Clip(text, most)
		if !strings.HasPrefix(text, got) || len(got) < most-utf8.UTFMax+1 || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}
