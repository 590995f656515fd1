package upstream

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
	"palyra/internal/exec/workspace"
)

// TestOneTableOfUnseenCharacters: prompts of approvals, the CLI, texts of servers and file names
// at the commit gate assign the same class to every character. The console has its own test.
func TestOneTableOfUnseenCharacters(t *testing.T) {
	t.Parallel()
	differ := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == utf8.RuneError || r == '\n' || r == '\t' {
			continue // not text, or the replacement character, or a line separator
		}
		s := "a" + string(r) + "b"
		for consumer, seen := range map[string]bool{
			"a prompt":        text.Visible(s) == s,
			"the CLI":         printer.VisibleText(s) == s,
			"a server's text": clean(s, 100) == s,
			"a file's name":   r == '/' || workspace.Plain(s),
		} {
			if want := !text.Unseen(r) && text.Lookalikes(s) == nil; seen != want {
				if differ++; differ < 20 {
					t.Errorf("%s shows %U: %v, want %v", consumer, r, seen, want)
				}
			}
		}
	}
	if got := clean("a\u3000b\u200bc", 100); got != "a b\ufffdc" || strings.Contains(got, "\u3000") {
		t.Errorf("blanks and hidden characters of a server become %q", got)
	}
}
