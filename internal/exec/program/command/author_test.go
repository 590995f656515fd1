package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// odd are names that could change the meaning of a configuration file.
var odd = []string{
	"Ada Lovelace", "Ada \"Countess\" Lovelace", `back\slash`, `\`, `"`, `\"`, `\n`, "[core]", "]", "# hash", "; semicolon", " spaces ", "Åsa Ö", "=", "a = b", "'", "${HOME}", "%",
	"a\n[core]\n\thooksPath = /x", "a\r", "a\x00b", "a\x7f", "a\u0085b", "\xff", "a\tb", strings.Repeat("x", 256), strings.Repeat("x", 257),
}

// TestAuthorGitConfig: git reads the valid fields from the configuration, and no other setting.
func TestAuthorGitConfig(t *testing.T) {
	t.Parallel()
	for _, value := range odd {
		checkGitConfig(t, value)
	}
	for _, a := range []Author{{}, {Name: "a\nb"}, {Email: "\xff"}} {
		if got := a.GitConfig(); got != "" {
			t.Errorf("%+v: %q", a, got)
		}
	}
	if got := (Author{Name: "a\nb", Email: "a@example.org"}).GitConfig(); got != "[user]\n\temail = \"a@example.org\"\n" {
		t.Errorf("of a name that is not fit and an address that is: %q", got)
	}
}

func FuzzAuthorGitConfig(f *testing.F) {
	for _, value := range odd {
		f.Add(value)
	}
	f.Fuzz(checkGitConfig)
}

func checkGitConfig(t *testing.T, value string) {
	t.Helper()
	a := Author{Name: value, Email: value}
	want := ""
	if fit := a.Fit(); fit.Name != "" {
		want = "user.name\n" + fit.Name + "\x00user.email\n" + fit.Email + "\x00"
	}
	if got := gitReads(t, a.GitConfig()); got != want {
		t.Errorf("%q is written as %q, of which git reads %q", value, a.GitConfig(), got)
	}
}

// gitReads lists all settings of a configuration file.
func gitReads(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gitconfig")
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
	cmd := exec.CommandContext(t.Context(), "git", "config", "--null", "--file", file, "--list")
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir()}, t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git does not read %q: %v", content, err)
	}
	return string(out)
}
