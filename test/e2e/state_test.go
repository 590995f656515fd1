//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// launchRefused runs palyrad, which must end by itself before it is ready.
func (g *gateway) launchRefused(args ...string) result {
	g.t.Helper()
	r := g.palyrad(args...)
	if r.code == 0 || strings.Contains(r.err, "is ready") {
		g.t.Fatalf("palyrad started: exit code %d\n%s", r.code, r.err)
	}
	return r
}

// TestOneDaemonPerStateDirectory: the second one names the first.
func TestOneDaemonPerStateDirectory(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.launchRefused().want(t, 2, "process "+strconv.Itoa(g.cmd.Process.Pid), g.state, "next: Stop it first")
	// The first one goes on.
	g.local().ok("call", "echo", "text=hi")
	// The lock goes with the process, however it ends.
	g.kill()
	g.start()
}

func TestStateDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.stop()
	for _, mode := range []os.FileMode{0o755, 0o710} {
		if err := os.Chmod(g.state, mode); err != nil {
			t.Fatal(err)
		}
		g.launchRefused().want(t, 2, "chmod 700 "+g.state)
		g.palyradRefused(t, "operator", "add", "bob", "--role", "operator")
	}
	if err := os.Chmod(g.state, 0o700); err != nil {
		t.Fatal(err)
	}
	g.start()
}

func (g *gateway) palyradRefused(t *testing.T, args ...string) {
	t.Helper()
	g.palyrad(args...).want(t, 2, "chmod 700")
}

// TestConfigurationIsStrict breaks the configuration in ways that each name
// what to mend.
func TestConfigurationIsStrict(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		settings []string
		flags    []string
		says     []string
	}{
		"unknown key":        {[]string{"[process_runner]", "allow_interpreter = true"}, nil, []string{"allow_interpreter", "palyra.toml:18:1"}},
		"wrong type":         {[]string{"[process_runner]", `enabled = "yes"`}, nil, []string{"process_runner.enabled", "palyra.toml:18:"}},
		"out of range":       {[]string{"[approvals]", `default_timeout = "1s"`}, nil, []string{"approvals.default_timeout", "palyra.toml:18:"}},
		"open to the world":  {nil, []string{"--listen-api", "0.0.0.0:0"}, []string{"listen.allow_remote"}},
		"metrics on the net": {nil, []string{"--listen-metrics", "0.0.0.0:0"}, []string{"listen.metrics"}},
		"workspace around the state": {
			nil, []string{"--workspace", "all=/"}, []string{"workspace"},
		},
		"workspace that is not there": {nil, []string{"--workspace", "gone=/no/such/directory"}, []string{`"gone"`}},
		"unknown flag":                {nil, []string{"--listen-apy", "127.0.0.1:0"}, []string{"listen-apy", "--help"}},
		"unknown command":             {nil, []string{"oprator"}, []string{"oprator"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, one.settings...)
			g.launchRefused(one.flags...).want(t, 2, one.says...)
			if _, err := os.Stat(filepath.Join(g.state, "operator")); err == nil {
				t.Error("a credential was written though nothing started")
			}
		})
	}
}
