//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// gateway is one palyrad with a workspace.
type gateway struct{ *process.Palyrad }

// newGateway creates the directories and the configuration. The settings are TOML and follow
// the common settings.
func newGateway(t *testing.T, settings ...string) *gateway {
	t.Helper()
	g := &gateway{process.NewPalyrad(t, filepath.Join(programs, "palyrad"), t.TempDir())}
	g.file("a.txt", "hello\n")
	g.write(g.Config, fmt.Sprintf(`state_dir = %q
vault.backend = "file"
roles = ["security"]
[listen]
api = "127.0.0.1:0"
metrics = ""
console = ""
[policy]
dir = %q
[[workspaces]]
name = "default"
path = %q
[rate_limits.read]
per_second = 1000
burst = 2000
[rate_limits.decide]
per_second = 100
burst = 300
%s`, g.State, g.Policies, g.Workspace, strings.Join(settings, "\n")))
	return g
}

// startGateway creates and starts a gateway.
func startGateway(t *testing.T, settings ...string) *gateway {
	t.Helper()
	g := newGateway(t, settings...)
	g.Start()
	return g
}

func (g *gateway) write(path, text string) {
	g.T.Helper()
	must.Do(g.T, os.WriteFile(path, []byte(text), 0o600))
}

// configure appends to the configuration, which takes effect at the next start.
func (g *gateway) configure(text string) {
	g.T.Helper()
	now := must.Get(os.ReadFile(g.Config))(g.T)
	g.write(g.Config, string(now)+"\n"+text)
}

// file writes a file in the workspace.
func (g *gateway) file(name, text string) string {
	g.T.Helper()
	path := filepath.Join(g.Workspace, name)
	g.write(path, text)
	return path
}

// policy replaces a policy file atomically, because palyrad watches the directory and may read
// the file at any moment. The empty text removes the file.
func (g *gateway) policy(name, text string) {
	g.T.Helper()
	path := filepath.Join(g.Policies, name)
	if text == "" {
		must.Do(g.T, os.Remove(path))
		return
	}
	whole := filepath.Join(g.Dir, "new-"+name)
	g.write(whole, text)
	must.Do(g.T, os.Rename(whole, path))
}

// bundle is the local operator's credential bundle.
func (g *gateway) bundle() string { return filepath.Join(g.State, "operator") }

// address returns the current address of the API.
func (g *gateway) address() string {
	g.T.Helper()
	text := must.Get(os.ReadFile(filepath.Join(g.bundle(), "endpoint")))(g.T)
	for line := range strings.Lines(string(text)) {
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "address="); ok {
			return at
		}
	}
	g.T.Fatalf("the endpoint file names no address:\n%s", text)
	return ""
}

// palyrad runs a palyrad command with the configuration of this gateway and waits until it
// exits.
func (g *gateway) palyrad(args ...string) process.Result {
	g.T.Helper()
	cmd := exec.CommandContext(g.T.Context(), g.Program, append([]string{"--config", g.Config}, args...)...)
	cmd.Env, cmd.Dir = append(process.Environment(g.Dir), g.Env...), g.Dir
	r := process.Finish(g.T, cmd)
	g.Note(r)
	return r
}

// add adds a member and returns a client with its credential.
func (g *gateway) add(name string, flags ...string) *client {
	g.T.Helper()
	dir := filepath.Join(g.Dir, name)
	if _, err := os.Stat(g.bundle()); err != nil {
		// Before the first start, the port of address "0" is unknown, and palyrad refuses to guess.
		// The clients of these tests get the address from the endpoint file.
		flags = append(flags, "--listen-api", "127.0.0.1:7443")
	}
	r := g.palyrad(append([]string{"operator", "add", name, "--yes", "--out", dir}, flags...)...)
	r.Want(g.T, 0)
	return &client{g: g, credentials: dir}
}

// sub runs a subtest that uses the gateway. A failure in it ends only the subtest.
func (g *gateway) sub(name string, test func(t *testing.T)) {
	outer := g.T
	outer.Run(name, func(t *testing.T) {
		g.T = t
		defer func() { g.T = outer }()
		test(t)
	})
}

// local returns the client of the local operator.
func (g *gateway) local() *client { return &client{g: g} }
