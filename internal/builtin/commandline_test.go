package builtin

import (
	"strings"
	"testing"
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
	// The middle goes, and what stands first and last stays.
	long := commandLine(append([]string{"rm", "-rf"}, strings.Split(strings.Repeat("directory ", 40)+"/workspace", " ")...), shownCommand)
	if n := len([]rune(long)); n != shownCommand || !strings.HasPrefix(long, "rm -rf directory ") || !strings.Contains(long, " ... ") || !strings.HasSuffix(long, " /workspace") {
		t.Errorf("%d characters: %s", n, long)
	}
}
