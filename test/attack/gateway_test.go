//go:build linux

package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// programs builds palyrad and palyra once, linked as `make build` links them.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(places.base, "bin")
	return dir, process.Install(dir, "palyrad", "palyra")
})

// withoutHelper builds, once, a palyrad without its sandbox helper.
var withoutHelper = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(places.base, "without-helper")
	return filepath.Join(dir, process.WithoutHelper), process.Install(dir, process.WithoutHelper)
})

// These are policies that operators add in the tests.
const (
	// unattended lets programs and writes run without approval, whatever variables, child programs
	// or code they have.
	unattended = `@id("unattended")
@reason("runs unattended in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action in [Action::"tool.execute/process.run", Action::"tool.execute/fs.write", Action::"tool.execute/fs.patch"], resource)
when { context.egress.mode != "none" }
unless { context has exec && (context.exec.env.contains("nothing") || context.exec.starts.contains("nothing") || ![true, false].contains(context.exec.inline_code)) };
`
	// anyCommit disables the commit gate.
	anyCommit = `@id("any-commit")
@reason("everything is committed in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"workspace.commit", resource);
`
)

// gateway is one palyrad with the palyra that calls it.
type gateway struct {
	*process.Palyrad
	client string
}

// newGateway creates the directories, the configuration and a policy.
func newGateway(t *testing.T, policy string, settings ...string) *gateway {
	t.Helper()
	bin := must.Get(programs())(t)
	dir := must.Get(os.MkdirTemp(places.scenes, "gateway-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &gateway{process.NewPalyrad(t, filepath.Join(bin, "palyrad"), dir), filepath.Join(bin, "palyra")}
	g.MayEnd = true
	g.write(filepath.Join(g.Policies, "10.cedar"), policy)
	g.write(g.Config, fmt.Sprintf(`state_dir = %q
vault.backend = "file"
[listen]
api = "127.0.0.1:0"
metrics = ""
console = ""
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
%s`, g.State, g.Policies, g.Workspace, strings.Join(settings, "\n")))
	return g
}

func (g *gateway) write(path, text string) {
	g.T.Helper()
	must.Do(g.T, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// file writes a file in the workspace.
func (g *gateway) file(name, text string) {
	g.T.Helper()
	g.write(filepath.Join(g.Workspace, name), text)
}

// look returns the state of the workspace.
func (g *gateway) look() map[string]string {
	g.T.Helper()
	return must.Get(snapshot(g.Workspace))(g.T)
}

// start runs palyrad, behind wrap, and reports whether it became ready.
func (g *gateway) start(wrap ...string) bool {
	g.T.Helper()
	g.Wrap = wrap
	g.Launch()
	return g.AwaitReady()
}

// mustStart is start, and fails the test if palyrad does not become ready.
func (g *gateway) mustStart(wrap ...string) {
	g.T.Helper()
	if !g.start(wrap...) {
		g.T.Fatalf("palyrad did not get ready:\n%s", g.Log())
	}
}

// end sends a signal and waits until palyrad exits.
func (g *gateway) end(s syscall.Signal) {
	g.T.Helper()
	g.Signal(s)
	if !process.Ended(g.Ended) {
		_ = g.Cmd.Process.Kill()
		<-g.Ended
		g.T.Errorf("palyrad (process %d) had to be killed:\n%s", g.Cmd.Process.Pid, g.Log())
	}
}

func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.T.Context(), g.client, args...)
	cmd.Env = append(process.Environment(g.Dir), "PALYRA_CONFIG="+g.Config)
	return cmd
}

// palyra runs a palyra command and waits until it exits.
func (g *gateway) palyra(args ...string) process.Result {
	g.T.Helper()
	return process.Finish(g.T, g.command(args...))
}

// run calls process.run.
func (g *gateway) run(argv ...string) process.Result {
	g.T.Helper()
	return g.palyra("call", "process.run", "argv="+list(argv))
}

func list(argv []string) string {
	text, _ := json.Marshal(argv)
	return string(text)
}

// waiting is a call that runs or waits for approval.
type waiting struct {
	g *gateway
	*process.Child
}

// begin starts a call without waiting for it.
func (g *gateway) begin(args ...string) *waiting {
	g.T.Helper()
	return &waiting{g, process.Begin(g.T, g.command(args...))}
}

func (w *waiting) wait() process.Result {
	w.g.T.Helper()
	return w.Wait(w.g.T)
}

// answer answers an approval.
func (g *gateway) answer(a process.Ask, flags ...string) process.Result {
	g.T.Helper()
	return g.palyra(a.Decide(flags...)...)
}

// attested returns the newest attestation and whether it verifies.
func (g *gateway) attested() (text string, verified bool) {
	g.T.Helper()
	id := strings.TrimSpace(g.palyra("attest", "list", "--limit", "1", "-o", "name").Out)
	text = g.palyra("attest", "show", id, "-o", "json").Out
	var s struct {
		Verified bool `json:"verified"`
	}
	_ = json.Unmarshal([]byte(text), &s)
	return text, s.Verified
}

// restart restarts the gateway with a changed configuration.
func (g *gateway) restart(change func(config string) string) {
	g.T.Helper()
	g.end(syscall.SIGTERM)
	g.write(g.Config, change(read(g.T, g.Config)))
	g.mustStart()
}

// executable writes an executable file in the workspace.
func (g *gateway) executable(name, text string) {
	g.T.Helper()
	g.file(name, text)
	must.Do(g.T, os.Chmod(filepath.Join(g.Workspace, name), 0o755))
}
