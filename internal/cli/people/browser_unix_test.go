//go:build unix

package people_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
)

// opener is an xdg-open that records its arguments and the content of the given file.
const opener = "#!/bin/sh\necho \"$@\" > \"$0.args\"\ncat \"$1\" > \"$0.page\"\n"

// The browser is started with a file whose name reveals nothing. The file is removed after the
// login.
//
// Not parallel: it sets PATH of the process, in which the browser is searched.
func TestOpensABrowser(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "xdg-open")
	must.Do(t, os.WriteFile(fake, []byte(opener), 0o755))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	w := clitest.NewWorld(t)
	w.Env["XDG_RUNTIME_DIR"] = filepath.Join(dir, "run")
	r := w.Run("console")
	w.Want(r, 0)
	args := strings.TrimSpace(string(must.Get(os.ReadFile(fake + ".args"))(t)))
	page := string(must.Get(os.ReadFile(fake + ".page"))(t))
	if strings.Contains(args, "T0KEN") || !strings.HasPrefix(args, filepath.Join(dir, "run", "palyra")) {
		t.Errorf("the browser was started with %q", args)
	}
	if !strings.Contains(page, clitest.ConsoleLink) { // control: the page has the link
		t.Errorf("the page is %q", page)
	}
	if _, err := os.Stat(args); !os.IsNotExist(err) {
		t.Errorf("the page is still there: %v", err)
	}
	if strings.Contains(r.Out+r.Err, "T0KEN") || !strings.Contains(r.Out, clitest.ConsoleSessionID) {
		t.Errorf("said %s%s", r.Out, r.Err)
	}
	// Without a browser the link is printed.
	must.Do(t, os.Remove(fake))
	t.Setenv("PATH", dir)
	if r = w.Run("console"); !strings.Contains(r.Out, clitest.ConsoleLink) {
		t.Errorf("without a browser: %s%s", r.Out, r.Err)
	}
}
