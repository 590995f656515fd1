package installing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/agentfiles"
	"palyra/internal/canonical"
	"palyra/internal/must"
)

func exitOf(line string) int {
	var exit *exec.ExitError
	if err := exec.Command("sh", "-c", line).Run(); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// listing is all that is in a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		must.Do(t, err)
		info := must.Get(e.Info())(t)
		text := ""
		if info.Mode().IsRegular() {
			text = canonical.Digest(must.Get(os.ReadFile(path))(t))
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprintln(&b, info.Mode(), rel, text)
		return nil
	}))
	return b.String()
}

var errStop = errors.New("stopped")

// TestStoppedAnywhere stops the installation of both hooks at each of its steps, and then
// the taking out at each of its steps; another run leaves the directory as it was.
func TestStoppedAnywhere(t *testing.T) {
	wanted := []Wanted{user(), {Agent: agentfiles.Codex, Scope: agentfiles.User}}
	for _, ending := range []bool{false, true} {
		for n := 0; ; n++ {
			s := site(t, "")
			s.Held = false // by commands, which need no token
			put(t, claudePath(s), claudeText)
			put(t, filepath.Join(s.Home, "src", "x"), "x")
			before := listing(t, s.Home)
			steps, stopped := 0, false
			stop := func(b *Book, on bool) {
				b.Reached = func(string) error {
					if steps++; on && steps > n {
						stopped = true
						return errStop
					}
					return nil
				}
			}
			dir := filepath.Join(s.Home, ".local", "state", "palyra-cli")
			b := must.Get(Open(dir))(t)
			stop(b, !ending)
			i := &Installer{Site: s, Book: b}
			for _, w := range wanted {
				if _, err := i.Install(t.Context(), w); err != nil && !errors.Is(err, errStop) {
					t.Fatal(err)
				}
			}
			must.Do(t, b.lock.Close()) // as a process that ends at once
			steps = 0
			if ending {
				takeOutAll(t, s, dir, func(b *Book) { stop(b, true) })
			}
			takeOutAll(t, s, dir, func(*Book) {})
			if after := listing(t, s.Home); after != before {
				t.Fatalf("ending %t, stopped after %d steps:\n%s\nbefore\n%s", ending, n, after, before)
			}
			if !stopped {
				if n < 8 {
					t.Errorf("there were only %d steps", n)
				}
				break
			}
		}
	}
}

// takeOutAll takes out all hooks in a record, as palyra down does.
func takeOutAll(t *testing.T, s Site, dir string, with func(*Book)) {
	t.Helper()
	b := must.Get(Open(dir))(t)
	with(b)
	i := &Installer{Site: s, Book: b}
	for _, h := range append([]Hook(nil), b.Hooks...) {
		_, err := i.Uninstall(t.Context(), h)
		if errors.Is(err, ErrGatewayAway) {
			err = b.DropHook(h)
		}
		if errors.Is(err, errStop) {
			must.Do(t, b.lock.Close())
			return
		}
		must.Do(t, err)
	}
	must.Do(t, b.Close())
}

// TestInstalledTwice: a second installation replaces the entries of the first, and
// what was there before both comes back.
func TestInstalledTwice(t *testing.T) {
	s := site(t, "")
	s.Held = false
	put(t, claudePath(s), claudeText)
	before := listing(t, s.Home)
	dir := filepath.Join(s.Home, ".local", "state", "palyra-cli")
	for _, program := range []string{"/opt/palyra/palyra-hook", "/usr/local/bin/palyra-hook"} {
		b := must.Get(Open(dir))(t)
		s.HookProgram = program
		_, err := (&Installer{Site: s, Book: b}).Install(t.Context(), user())
		must.Do(t, err)
		must.Do(t, b.Close())
		text := must.Get(os.ReadFile(claudePath(s)))(t)
		if h := handlers(t, text, "PreToolUse"); len(h) != 1 || !strings.Contains(h[0]["command"].(string), program) {
			t.Errorf("the hooks are %v", h)
		}
	}
	takeOutAll(t, s, dir, func(*Book) {})
	if after := listing(t, s.Home); after != before {
		t.Errorf("after\n%s\nbefore\n%s", after, before)
	}
}
