//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/test/process"
)

// gateway is one palyrad with directories of its own. It may be started,
// stopped and killed any number of times.
type gateway struct {
	t *testing.T
	// program is the palyrad that start runs.
	program   string
	dir       string
	state     string
	policies  string
	workspace string
	config    string
	// env is added to palyrad's environment.
	env []string

	cmd   *exec.Cmd
	log   *process.Output
	ended chan struct{}
}

// newGateway makes the directories and the configuration. The settings are
// TOML and come after the common ones.
func newGateway(t *testing.T, settings ...string) *gateway {
	t.Helper()
	dir := t.TempDir()
	g := &gateway{
		t: t, program: filepath.Join(programs, "palyrad"), dir: dir,
		state: filepath.Join(dir, "state"), policies: filepath.Join(dir, "policies"),
		workspace: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "palyra.toml"),
	}
	for _, d := range []string{g.policies, g.workspace} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.file("a.txt", "hello\n")
	g.write(g.config, fmt.Sprintf(`state_dir = %q
roles = ["security"]
[listen]
api = "127.0.0.1:0"
metrics = ""
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
%s`, g.state, g.policies, g.workspace, strings.Join(settings, "\n")))
	t.Cleanup(g.cleanUp)
	return g
}

// startGateway is newGateway and start.
func startGateway(t *testing.T, settings ...string) *gateway {
	t.Helper()
	g := newGateway(t, settings...)
	g.start()
	return g
}

func (g *gateway) write(path, text string) {
	g.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// configure adds to the configuration; it counts from the next start on.
func (g *gateway) configure(text string) {
	g.t.Helper()
	now, err := os.ReadFile(g.config)
	if err != nil {
		g.t.Fatal(err)
	}
	g.write(g.config, string(now)+"\n"+text)
}

// file writes a file of the workspace.
func (g *gateway) file(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.workspace, name)
	g.write(path, text)
	return path
}

// read returns a file of the workspace, "" when it does not exist.
func (g *gateway) read(name string) string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.workspace, name))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(text)
}

// policy puts a policy file in its place, whole: palyrad follows the directory
// and may read it at any moment. The empty text removes it.
func (g *gateway) policy(name, text string) {
	g.t.Helper()
	path := filepath.Join(g.policies, name)
	if text == "" {
		if err := os.Remove(path); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	whole := filepath.Join(g.dir, "new-"+name)
	g.write(whole, text)
	if err := os.Rename(whole, path); err != nil {
		g.t.Fatal(err)
	}
}

var readyLine = regexp.MustCompile(`palyrad is ready`)

// start runs palyrad and waits until it is ready.
func (g *gateway) start() {
	g.t.Helper()
	g.launch()
	if g.log.Await(readyLine, g.ended) == nil {
		g.t.Fatalf("palyrad did not get ready:\n%s", g.log)
	}
}

// launch runs palyrad without waiting for anything.
func (g *gateway) launch() {
	g.t.Helper()
	g.cmd = exec.Command(g.program, "--config", g.config)
	g.cmd.Env = append(environment(g.dir), g.env...)
	g.log, g.ended = process.NewOutput(), make(chan struct{})
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(g.cmd, g.ended)
}

// environment is what every process of these tests gets: nothing of the
// person's own settings.
func environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
}

// stop ends palyrad in order and fails when that is no clean end.
func (g *gateway) stop() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
	g.awaitEnd()
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Fatalf("palyrad ended with exit code %d:\n%s", code, g.log)
	}
}

// kill is SIGKILL: palyrad gets no chance to do anything.
func (g *gateway) kill() {
	g.t.Helper()
	g.signal(syscall.SIGKILL)
	g.awaitEnd()
}

func (g *gateway) signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) awaitEnd() {
	g.t.Helper()
	select {
	case <-g.ended:
	case <-time.After(process.Patience):
		g.t.Fatalf("palyrad (process %d) did not end:\n%s", g.cmd.Process.Pid, g.log)
	}
}

// cleanUp ends a palyrad that still runs and shows its log when the test
// failed.
func (g *gateway) cleanUp() {
	if g.cmd == nil || g.cmd.Process == nil {
		return
	}
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(process.Patience):
		_ = g.cmd.Process.Kill()
		<-g.ended
		g.t.Errorf("palyrad (process %d) had to be killed", g.cmd.Process.Pid)
	}
	if g.t.Failed() {
		g.t.Logf("palyrad's log:\n%s", g.log)
	}
}

// bundle is the local operator's credential bundle.
func (g *gateway) bundle() string { return filepath.Join(g.state, "operator") }

// address is where the API listens now.
func (g *gateway) address() string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.bundle(), "endpoint"))
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "address="); ok {
			return at
		}
	}
	g.t.Fatalf("the endpoint file names no address:\n%s", text)
	return ""
}

// palyrad runs another palyrad command to its end with the configuration of
// this gateway.
func (g *gateway) palyrad(args ...string) result {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), g.program, append([]string{"--config", g.config}, args...)...)
	cmd.Env, cmd.Dir = environment(g.dir), g.dir
	return finish(g.t, cmd)
}

// add makes a member and returns a client with its credential.
func (g *gateway) add(name string, flags ...string) *client {
	g.t.Helper()
	dir := filepath.Join(g.dir, name)
	if _, err := os.Stat(g.bundle()); err != nil {
		// Before the first start nobody knows the port that "0" will become, and
		// palyrad refuses to guess. Clients here are told the address anyway.
		flags = append(flags, "--listen-api", "127.0.0.1:7443")
	}
	r := g.palyrad(append([]string{"operator", "add", name, "--out", dir}, flags...)...)
	r.want(g.t, 0)
	return &client{g: g, credentials: dir}
}

// sub runs a subtest that uses the gateway; what fails in there ends the
// subtest alone.
func (g *gateway) sub(name string, test func(t *testing.T)) {
	outer := g.t
	outer.Run(name, func(t *testing.T) {
		g.t = t
		defer func() { g.t = outer }()
		test(t)
	})
}

// local is the client of the local operator.
func (g *gateway) local() *client { return &client{g: g} }
