package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
)

func exitOf(line string) int {
	var exit *exec.ExitError
	if err := exec.Command("sh", "-c", line).Run(); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// listing returns the entries of a directory with modes and digests.
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

// TestStoppedAnywhere stops the installation of both hooks at each of its steps, and then the
// removal at each of its steps. Another removal restores the directory to its original state.
func TestStoppedAnywhere(t *testing.T) {
	t.Parallel()
	wanted := []Wanted{user(), {Agent: files.Codex, Scope: files.User}}
	for _, ending := range []bool{false, true} {
		for n := 0; ; n++ {
			s := site(t, "")
			s.Held = false // installs commands, which need no token
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
			f, g := newGateway(t)
			b := must.Get(Open(dir))(t)
			stop(b, !ending)
			i := &Installer{Site: s, Book: b, Gateway: g}
			for _, w := range wanted {
				if _, err := i.Install(t.Context(), w); err != nil && !errors.Is(err, errStop) {
					t.Fatal(err)
				}
			}
			must.Do(t, b.lock.Close()) // like a process that was killed
			steps = 0
			if ending {
				takeOutAll(t, s, dir, g, func(b *Book) { stop(b, true) })
			}
			takeOutAll(t, s, dir, g, func(*Book) {})
			if len(f.tokens) > 0 || len(f.watched) > 0 || f.devices > 0 {
				t.Fatalf("ending %t, stopped after %d steps: the gateway still has %v, %v, %d devices", ending, n, f.tokens, f.watched, f.devices)
			}
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

// takeOutAll removes all recorded hooks, like palyra down.
func takeOutAll(t *testing.T, s Site, dir string, g *client.Gateway, with func(*Book)) {
	t.Helper()
	b := must.Get(Open(dir))(t)
	with(b)
	i := &Installer{Site: s, Book: b, Gateway: g}
	for _, h := range append([]Hook(nil), b.Hooks...) {
		_, err := i.Uninstall(t.Context(), h)
		if errors.Is(err, errStop) {
			must.Do(t, b.lock.Close())
			return
		}
		must.Do(t, err)
	}
	must.Do(t, b.Close())
}

// TestInstalledTwice: a second installation replaces the entries of the first, and the removal
// restores the content before both.
func TestInstalledTwice(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	s.Held = false
	put(t, claudePath(s), claudeText)
	before := listing(t, s.Home)
	dir := filepath.Join(s.Home, ".local", "state", "palyra-cli")
	f, g := newGateway(t)
	for _, program := range []string{"/opt/palyra/palyra-hook", "/usr/local/bin/palyra-hook"} {
		b := must.Get(Open(dir))(t)
		s.HookProgram = program
		must.Get((&Installer{Site: s, Book: b, Gateway: g}).Install(t.Context(), user()))(t)
		must.Do(t, b.Close())
		text := must.Get(os.ReadFile(claudePath(s)))(t)
		if h := handlers(t, text, "PreToolUse"); len(h) != 1 || !strings.Contains(h[0]["command"].(string), program) {
			t.Errorf("the hooks are %v", h)
		}
	}
	if len(f.tokens) != 1 || len(f.members) != 1 {
		t.Errorf("there are %v and %v", f.tokens, f.members)
	}
	takeOutAll(t, s, dir, g, func(*Book) {})
	if after := listing(t, s.Home); after != before {
		t.Errorf("after\n%s\nbefore\n%s", after, before)
	}
}

// TestTokens: a hook's token permits only reports, from this host, as an agent of the
// installing user. All command hooks of an agent share one token in a private file, which is
// revoked with the last of them.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	project := filepath.Join(s.Home, "src", "p")
	must.Do(t, os.MkdirAll(project, 0o700))
	f, g := newGateway(t)
	dir := s.ClientState()
	b := must.Get(Open(dir))(t)
	i := &Installer{Site: s, Book: b, Gateway: g}
	w := user()
	w.Transport = TransportCommand
	for _, w := range []Wanted{w, {Agent: files.ClaudeCode, Scope: files.Project, Project: project}} {
		_, err := i.Install(t.Context(), w)
		must.Do(t, err)
	}
	if len(f.tokens) != 1 || strings.Join(f.tokens[0].GetScopes(), " ") != "hook.report" || f.tokens[0].GetPrincipal() != "agent:claude-code" || strings.Join(f.tokens[0].GetAddresses(), " ") != "127.0.0.0/8 ::1/128" {
		t.Errorf("tokens %v", f.tokens)
	}
	info := must.Get(os.Stat(s.TokenFile(files.ClaudeCode)))(t)
	if text := must.Get(os.ReadFile(s.TokenFile(files.ClaudeCode)))(t); info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(text), "pal_") {
		t.Errorf("the token's file: %v %q", info.Mode(), text)
	}
	_, err := i.Uninstall(t.Context(), b.Hooks[0])
	must.Do(t, err)
	if _, err := os.Stat(s.TokenFile(files.ClaudeCode)); err != nil || len(f.tokens) != 1 {
		t.Errorf("the other hook has lost its token: %v, %v", err, f.tokens)
	}
	_, err = i.Uninstall(t.Context(), b.Hooks[0])
	must.Do(t, err)
	if _, err := os.Stat(s.TokenFile(files.ClaudeCode)); err == nil || len(f.tokens) != 0 {
		t.Errorf("a token is left: %v", f.tokens)
	}
	// A change from a command to HTTP removes the file and revokes its token.
	for _, transport := range []string{TransportCommand, TransportHTTP} {
		w.Transport = transport
		_, err := i.Install(t.Context(), w)
		must.Do(t, err)
	}
	if _, err := os.Stat(s.TokenFile(files.ClaudeCode)); err == nil || len(f.tokens) != 1 {
		t.Errorf("by HTTP: %v", f.tokens)
	}
	must.Do(t, b.Close())
}
