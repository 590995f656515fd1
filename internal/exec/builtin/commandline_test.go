package builtin

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/text"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"git", "status"}, "git status"},
		{[]string{"git", "push", "--force"}, "git push --force"},
		{[]string{"git", "commit", "-m", "it's two words", ""}, `git commit -m 'it'\''s two words' ''`},
		{[]string{"sh", "-c", "rm -rf $HOME; true"}, `sh -c 'rm -rf $HOME; true'`},
		{[]string{"echo", "a\nb", "\x1b[2K", "\u202eoff"}, `echo "a\nb" "\x1b[2K" "\u202eoff"`},
		{[]string{"printf", "naïve", "日本"}, `printf 'naïve' '日本'`},
	} {
		if got := commandLine(c.argv, shownCommand); got != c.want {
			t.Errorf("%q is %s, want %s", c.argv, got, c.want)
		}
	}
}

// TestLongCommandLine: a long line is truncated at its end, never in the middle, and states the
// truncation.
func TestLongCommandLine(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"rm -rf with the argument in the middle": append([]string{"rm", "-rf", strings.Repeat("a", 60), "notes/ann"}, strings.Split(strings.Repeat("directory ", 40)+"last", " ")...),
		"a script":                               {"sh", "-c", "echo " + strings.Repeat("x", 500) + "; rm -rf notes/ann"},
		"two bytes each":                         {"printf", strings.Repeat("é", 300)},
	} {
		whole, got := text.ShellQuote(argv), commandLine(argv, shownCommand)
		shown, rest, cut := strings.Cut(got, " ... (")
		if !cut || !strings.HasPrefix(whole, shown) || len([]rune(got)) > shownCommand || rest != fmt.Sprintf("%d more characters)", len([]rune(whole))-len([]rune(shown))) {
			t.Errorf("%s: %d characters: %s", name, len([]rune(got)), got)
		}
	}
}
