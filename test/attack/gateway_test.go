//go:build linux

package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra/test/process"
)

// programs builds, once, palyrad and palyra as `make build` does.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(places.base, "bin")
	return dir, goBuild(dir, "palyrainit", "palyra/cmd/palyrad", "palyra/cmd/palyra")
})

// withoutHelper builds, once, a palyrad without its sandbox helper.
var withoutHelper = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(places.base, "without-helper")
	return filepath.Join(dir, "palyrad"), goBuild(dir, "", "palyra/cmd/palyrad")
})

func goBuild(dir, tags string, packages ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", tags, "-o", dir + "/"}, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %v: %w\n%s", packages, err, text)
	}
	return nil
}

// What operators of these tests permit.
const (
	// unattended lets programs and writes run without a human.
	unattended = `@id("unattended")
@reason("runs unattended in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action in [Action::"tool.execute/process.run", Action::"tool.execute/fs.write", Action::"tool.execute/fs.patch"], resource)
when { context.egress.mode != "none" };
`
	// anyCommit takes the commit gate away.
	anyCommit = `@id("any-commit")
@reason("everything is committed in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"workspace.commit", resource);
`
)

// gateway is one palyrad with directories of its own.
type gateway struct {
	t *testing.T
	// program is palyrad, client palyra.
	program   string
	client    string
	dir       string
	state     string
	policies  string
	workspace string
	config    string

	cmd   *exec.Cmd
	log   *process.Output
	ended chan struct{}
}

// newGateway makes the directories, the configuration and a policy.
func newGateway(t *testing.T, policy string, settings ...string) *gateway {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(places.scenes, "gateway-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &gateway{
		t: t, program: filepath.Join(bin, "palyrad"), client: filepath.Join(bin, "palyra"), dir: dir, state: filepath.Join(dir, "state"),
		policies: filepath.Join(dir, "policies"), workspace: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "palyra.toml"),
	}
	for _, d := range []string{g.policies, g.workspace} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.write(filepath.Join(g.policies, "10.cedar"), policy)
	g.write(g.config, fmt.Sprintf(`state_dir = %q
[listen]
api = "127.0.0.1:0"
metrics = ""
[policy]
dir = %q
[process_runner]
allow_interpreters = true
[rate_limits.read]
per_second = 1000
burst = 2000
[[workspaces]]
name = "default"
path = %q
%s`, g.state, g.policies, g.workspace, strings.Join(settings, "\n")))
	t.Cleanup(g.cleanUp)
	return g
}

func (g *gateway) write(path, text string) {
	g.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		g.t.Fatal(err)
	}
}

// file writes a file of the workspace, read returns one, "" for none.
func (g *gateway) file(name, text string) {
	g.t.Helper()
	g.write(filepath.Join(g.workspace, name), text)
}

func (g *gateway) read(name string) string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.workspace, name))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(text)
}

// look is the state of the workspace.
func (g *gateway) look() map[string]string {
	g.t.Helper()
	all, err := snapshot(g.workspace)
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

var readyLine = regexp.MustCompile(`palyrad is ready`)

// start runs palyrad, behind wrap, and reports whether it got ready.
func (g *gateway) start(wrap ...string) bool {
	g.t.Helper()
	line := append(append([]string{}, wrap...), g.program, "--config", g.config)
	g.cmd = exec.Command(line[0], line[1:]...)
	g.cmd.Env = environment(g.dir)
	g.log, g.ended = process.NewOutput(), make(chan struct{})
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(g.cmd, g.ended)
	return g.log.Await(readyLine, g.ended) != nil
}

// mustStart is start that fails.
func (g *gateway) mustStart(wrap ...string) {
	g.t.Helper()
	if !g.start(wrap...) {
		g.t.Fatalf("palyrad did not get ready:\n%s", g.log)
	}
}

// environment is nothing of the person's own settings.
func environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
}

// end sends a signal and waits for the end.
func (g *gateway) end(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Fatal(err)
	}
	if !process.Ended(g.ended) {
		_ = g.cmd.Process.Kill()
		<-g.ended
		g.t.Errorf("palyrad (process %d) had to be killed:\n%s", g.cmd.Process.Pid, g.log)
	}
}

func (g *gateway) cleanUp() {
	if g.cmd == nil || g.cmd.Process == nil {
		return
	}
	g.end(syscall.SIGTERM)
	if g.t.Failed() {
		g.t.Logf("palyrad's log:\n%s", g.log)
	}
}

// result is a palyra that has ended.
type result struct {
	code     int
	out, err string
}

func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.t.Context(), g.client, args...)
	cmd.Env = append(environment(g.dir), "PALYRA_CONFIG="+g.config)
	return cmd
}

// palyra runs palyra to its end.
func (g *gateway) palyra(args ...string) result {
	g.t.Helper()
	cmd := g.command(args...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := process.Run(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		g.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), msg.String()}
}

// run calls process.run.
func (g *gateway) run(argv ...string) result {
	g.t.Helper()
	return g.palyra("call", "process.run", "argv="+list(argv))
}

func list(argv []string) string {
	text, _ := json.Marshal(argv)
	return string(text)
}

// waiting is a call that runs, or waits for an answer.
type waiting struct {
	g     *gateway
	out   *process.Output
	err   *process.Output
	cmd   *exec.Cmd
	ended chan struct{}
}

// begin starts a call and does not wait for it.
func (g *gateway) begin(args ...string) *waiting {
	g.t.Helper()
	w := &waiting{g: g, cmd: g.command(args...), out: process.NewOutput(), err: process.NewOutput(), ended: make(chan struct{})}
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.err
	if err := w.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait()
		close(w.ended)
	}()
	g.t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.ended
	})
	return w
}

func (w *waiting) wait() result {
	w.g.t.Helper()
	if !process.Ended(w.ended) {
		w.g.t.Fatalf("%v did not end\nstdout: %s\nstderr: %s", w.cmd.Args[1:], w.out, w.err)
	}
	return result{w.cmd.ProcessState.ExitCode(), w.out.String(), w.err.String()}
}

// ask names an approval and what it is about.
type ask struct{ id, digest string }

var askLines = regexp.MustCompile(`(?s)waiting for approval (\w{26}) .*--allow once --digest (sha256:[0-9a-f]{64})`)

// asked waits until somebody is asked; false means that the call ended before.
func (w *waiting) asked() (ask, bool) {
	w.g.t.Helper()
	m := w.err.Await(askLines, w.ended)
	if m == nil {
		return ask{}, false
	}
	return ask{m[1], m[2]}, true
}

// answer decides an approval.
func (g *gateway) answer(a ask, flags ...string) result {
	g.t.Helper()
	return g.palyra(append([]string{"approvals", "decide", a.id, "--digest", a.digest, "-o", "json"}, flags...)...)
}

// attested is the part of the newest attestation that these tests look at.
func (g *gateway) attested() (text string, verified bool) {
	g.t.Helper()
	id := strings.TrimSpace(g.palyra("attest", "list", "--limit", "1", "-o", "name").out)
	text = g.palyra("attest", "show", id, "-o", "json").out
	var s struct {
		Verified bool `json:"verified"`
	}
	_ = json.Unmarshal([]byte(text), &s)
	return text, s.Verified
}
