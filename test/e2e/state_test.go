//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// launchRefused runs palyrad, which must exit before it is ready.
func (g *gateway) launchRefused(args ...string) process.Result {
	g.T.Helper()
	r := g.palyrad(args...)
	if r.Code == 0 || strings.Contains(r.Err, "is ready") {
		g.T.Fatalf("palyrad started: exit code %d\n%s", r.Code, r.Err)
	}
	return r
}

// TestOneDaemonPerStateDirectory: the second palyrad exits with an error that names the first.
func TestOneDaemonPerStateDirectory(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.launchRefused().Want(t, 2, "process "+strconv.Itoa(g.Cmd.Process.Pid), g.State, "next: Stop it first")
	// The first palyrad keeps running.
	g.local().ok("call", "echo", "text=hi")
	// The kernel releases the lock when the process ends, in any way.
	g.Kill()
	g.Start()
}

func TestStateDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.Stop()
	for _, mode := range []os.FileMode{0o755, 0o710} {
		must.Do(t, os.Chmod(g.State, mode))
		g.launchRefused().Want(t, 2, "chmod 700 "+g.State)
		g.palyradRefused(t, "operator", "add", "bob", "--role", "operator")
	}
	must.Do(t, os.Chmod(g.State, 0o700))
	g.Start()
}

func (g *gateway) palyradRefused(t *testing.T, args ...string) {
	t.Helper()
	g.palyrad(args...).Want(t, 2, "chmod 700")
}

// TestConfigurationIsStrict: each invalid configuration is refused with an error that names the
// setting.
func TestConfigurationIsStrict(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		settings []string
		flags    []string
		says     []string
	}{
		"unknown key":        {[]string{"[process_runner]", "allow_interpreter = true"}, nil, []string{"allow_interpreter", "palyra.toml:20:1"}},
		"wrong type":         {[]string{"[process_runner]", `enabled = "yes"`}, nil, []string{"process_runner.enabled", "palyra.toml:20:"}},
		"out of range":       {[]string{"[approvals]", `default_timeout = "1s"`}, nil, []string{"approvals.default_timeout", "palyra.toml:20:"}},
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
			g.launchRefused(one.flags...).Want(t, 2, one.says...)
			if _, err := os.Stat(filepath.Join(g.State, "operator")); err == nil {
				t.Error("a credential was written though nothing started")
			}
		})
	}
}

// TestNoDumps: a running palyrad writes no core file, and its files in /proc belong to root,
// even if it runs as an ordinary user. Control: a program that the test starts.
func TestNoDumps(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	control := process.Begin(t, exec.Command("prlimit", "--core=1024", "sleep", "infinity"))
	limit := func(pid int) string {
		limits := string(must.Get(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits"))(t))
		_, rest, _ := strings.Cut(limits, "Max core file size")
		return strings.Join(strings.Fields(rest)[:2], " ") // soft and hard limit
	}
	owner := func(pid int) uint32 {
		return must.Get(os.Stat("/proc/" + strconv.Itoa(pid) + "/environ"))(t).Sys().(*syscall.Stat_t).Uid
	}
	palyrad, other := g.Cmd.Process.Pid, control.Cmd.Process.Pid
	if limit(palyrad) != "0 0" || owner(palyrad) != 0 {
		t.Errorf("palyrad: core files of %s bytes, its memory belongs to user %d", limit(palyrad), owner(palyrad))
	}
	for limit(other) != "1024 1024" { // wait until prlimit has set the limit
		runtime.Gosched()
	}
	if int(owner(other)) != os.Geteuid() {
		t.Errorf("the control's memory belongs to user %d", owner(other))
	}
}
