//go:build unix

package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
)

// TestAgreesWithGit: the result equals git's author, for each place of the setting.
//
// Not parallel: it sets XDG_CONFIG_HOME, HOME and the current directory of the process.
func TestAgreesWithGit(t *testing.T) {
	const whole = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  command.Author
	}{
		"nothing":         {nil, command.Author{}},
		"in .gitconfig":   {map[string]string{".gitconfig": whole}, command.Author{Name: "Ada", Email: "ada@example.org"}},
		"in XDG's place":  {map[string]string{".config/git/config": whole}, command.Author{Name: "Ada", Email: "ada@example.org"}},
		"in both":         {map[string]string{".config/git/config": whole, ".gitconfig": "[user]\nname = Bea\n"}, command.Author{Name: "Bea", Email: "ada@example.org"}},
		"a name alone":    {map[string]string{".gitconfig": "[user]\nname = Ada\n"}, command.Author{Name: "Ada"}},
		"included":        {map[string]string{".gitconfig": "[include]\npath = mine\n", "mine": whole}, command.Author{Name: "Ada", Email: "ada@example.org"}},
		"twice":           {map[string]string{".gitconfig": whole + "name = Bea\n"}, command.Author{Name: "Bea", Email: "ada@example.org"}},
		"several lines":   {map[string]string{".gitconfig": "[user]\nname = \"a\\nb\"\nemail = a@example.org\n"}, command.Author{Email: "a@example.org"}},
		"too long":        {map[string]string{".gitconfig": "[user]\nname = " + strings.Repeat("x", 300) + "\n"}, command.Author{}},
		"no git's file":   {map[string]string{".gitconfig": "[user\n"}, command.Author{}},
		"other settings":  {map[string]string{".gitconfig": "[author]\nname = X\n[user]\nsigningkey = K\n[core]\nhooksPath = /x\n"}, command.Author{}},
		"of a repository": {map[string]string{".git/config": whole, ".git/HEAD": "ref: refs/heads/main\n"}, command.Author{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", "")
			home := newHome(t, c.files)
			t.Chdir(home) // the current directory of palyrad is ignored
			if got := Of(home); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("where XDG_CONFIG_HOME says", func(t *testing.T) {
		home := newHome(t, map[string]string{"xdg/git/config": whole})
		t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
		if got := Of(home); got.Name != "Ada" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("without a home", func(t *testing.T) {
		t.Setenv("HOME", newHome(t, map[string]string{".gitconfig": whole}))
		if got := Of(""); got != (command.Author{}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestNow: the author is determined again after some time.
//
// Not parallel: it sets XDG_CONFIG_HOME of the process.
func TestNow(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "")
	home := newHome(t, nil)
	a := New(home)
	if got := a.Now(); got != (command.Author{}) {
		t.Errorf("%+v", got)
	}
	must.Do(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\nname = Ada\n"), 0o600))
	a.until = a.until.Add(-2 * current) // simulates the elapsed time
	if got := a.Now(); got.Name != "Ada" {
		t.Errorf("what was set later does not count: %+v", got)
	}
}

func newHome(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, content := range files {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(home, name), []byte(content), 0o600))
	}
	return home
}
