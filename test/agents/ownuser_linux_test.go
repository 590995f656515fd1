package agents

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// gatewayUser and agentUser are uids that no account of this host has.
const gatewayUser, agentUser = 64101, 64102

// ownUser is the configuration of a palyrad that has its own uid. The part before the
// workspaces is also the configuration of the person whose agents call it.
const ownUser = `
[listen]
hooks = "%s"
agent_uids = [%d]

[approvals]
default_timeout = "30s"

[[workspaces]]
name = "project"
path = "%s"
`

// apartUsers starts a palyrad under one uid for a person with another uid, whose agents call
// it. The person's credential cannot answer approvals.
func apartUsers(t *testing.T) (gateway, p *person, palyrad *process.Child) {
	if os.Geteuid() != 0 {
		t.Skip("it takes two users, and root to be both")
	}
	dir := must.Get(os.MkdirTemp("", "own"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	must.Do(t, os.Chmod(dir, 0o755))
	gateway, p = newPersonIn(t, filepath.Join(dir, "gateway")), newPersonIn(t, filepath.Join(dir, "person"))
	gateway.uid, p.uid = gatewayUser, agentUser
	run := filepath.Join(dir, "run")
	must.Do(t, os.Mkdir(run, 0o755))
	must.Do(t, os.Chown(run, gatewayUser, gatewayUser))
	text := fmt.Sprintf(ownUser, filepath.Join(run, "hooks.sock"), agentUser, p.workspace)
	gateway.write(".config/palyra/palyra.toml", text) // replaces the file that newPersonIn wrote
	before, _, _ := strings.Cut(text, "[[workspaces]]")
	p.write(".config/palyra/palyra.toml", before)
	gateway.own()
	p.own()

	cmd := gateway.command(filepath.Join(gateway.bin, "palyrad"))
	palyrad = process.Begin(t, cmd)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("palyrad's log:\n%s", palyrad.Err)
		}
	})
	if palyrad.Err.Await(process.ReadyLine, palyrad.Ended) == nil {
		t.Fatalf("palyrad does not start:\n%s", palyrad.Err)
	}
	made := filepath.Join(gateway.home, "ann")
	gateway.palyra("members", "add", "ann", "--role", "developer", "--role", "auditor", "--yes", "--out", made).Want(t, 0)
	must.Do(t, os.Rename(made, filepath.Join(p.home, "ann")))
	p.own()
	p.more = []string{"PALYRA_CREDENTIALS=" + filepath.Join(p.home, "ann")}
	for _, a := range all {
		gateway.palyra("members", "add", a.name, "--owner", "ann", "--role", "agent", "--out", filepath.Join(gateway.home, a.name)).Want(t, 0)
		p.palyra("members", "consent", a.name).Want(t, 0)
		p.palyra("hook", "install", a.name).Want(t, 0)
	}
	return gateway, p, palyrad
}

// own makes the person the owner of the files that the test created for them, except the
// programs.
func (p *person) own() {
	p.t.Helper()
	must.Do(p.t, filepath.WalkDir(p.home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, p.uid, p.uid)
	}))
	for _, dir := range []string{filepath.Dir(p.home), p.home, p.workspace, p.bin} {
		must.Do(p.t, os.Chmod(dir, 0o755))
	}
}

// TestOwnUser runs palyrad under its own uid. Programs of the agent's user have no credential
// that could answer an approval, and cannot change anything of palyrad's.
func TestOwnUser(t *testing.T) {
	t.Parallel()
	gateway, p, palyrad := apartUsers(t)
	const posture = "palyrad has a uid of its own: "
	state := filepath.Join(gateway.home, ".local/state/palyra")
	for _, a := range all {
		line, made := p.mark("free" + a.name)
		r := a.run(p, true, a.shell(line))
		table.want(t, posture+"policy allows", a, happened(made()), ran, r.Out+r.Err+p.model.results())

		line, made = p.mark("forbidden" + a.name)
		r = a.run(p, true, a.shell(line))
		table.want(t, posture+"policy forbids", a, happened(made()), blocked, r.Out+r.Err+p.model.results())

		// A program of the agent's user tries every way that succeeds when palyrad runs as the same
		// user.
		line, made = p.mark("self" + a.name)
		p.model.wants(a.shell(line))
		c := a.start(p, true)
		q := gateway.waiting(c)
		p.answersFor(state, palyrad.Cmd.Process.Pid, a, q)
		r = c.Wait(t)
		table.want(t, posture+"a program of the agent's user approves", a, happened(made()), blocked, r.Out+r.Err+p.model.results())

		// Control: the same attack as palyrad's user.
		line, made = p.mark("other" + a.name)
		p.model.wants(a.shell(line))
		c = a.start(p, true)
		q = gateway.waiting(c)
		gateway.palyra("approve", q.ID, "--digest", q.Digest).Want(t, 0)
		r = c.Wait(t)
		table.want(t, "control: a program of palyrad's user approves", a, happened(made()), ran, r.Out+r.Err+p.model.results())
	}
	palyrad.End(t)
	for _, a := range all {
		must.Do(t, removeAll(p.workspace, "free"))
		p.fails("echo > " + p.hooks()) // the person cannot take over the socket's path
		p.tries(a, posture+"it does not run", blocked)
	}
}

// answersFor acts as a program of the person: it tries to answer an approval, and to disable
// palyrad and the hook. Every attempt must fail.
func (p *person) answersFor(state string, palyrad int, a *agent, q ask) {
	p.t.Helper()
	answer := []string{"approve", q.ID, "--digest", q.Digest}
	p.palyra(answer...).Want(p.t, 3, "PERMISSION_DENIED")
	if r := p.palyra(append([]string{"--socket"}, answer...)...); r.Code == 0 {
		p.t.Errorf("the person's socket answers: %s", r.Out)
	}
	// The attempt uses the hook's token instead of the certificate.
	bundle := filepath.Join(p.home, "token-of-"+a.name)
	must.Do(p.t, os.CopyFS(bundle, os.DirFS(filepath.Join(p.home, "ann"))))
	must.Do(p.t, os.Chmod(bundle, 0o700))
	for _, f := range must.Get(os.ReadDir(bundle))(p.t) {
		must.Do(p.t, os.Chmod(filepath.Join(bundle, f.Name()), 0o600))
	}
	for _, name := range []string{"cert.pem", "key.pem"} {
		must.Do(p.t, os.Remove(filepath.Join(bundle, name)))
	}
	token := must.Get(os.ReadFile(filepath.Join(p.home, ".local/state/palyra-cli/hooks", a.name+".token")))(p.t)
	must.Do(p.t, os.WriteFile(filepath.Join(bundle, "token"), token, 0o600))
	p.own()
	if r := p.palyra(append([]string{"--credentials", bundle}, answer...)...); r.Code == 0 || !strings.Contains(r.Err, "PERMISSION_DENIED") && !strings.Contains(r.Err, "UNAUTHENTICATED") {
		p.t.Errorf("the token of the hook answers: %d %s%s", r.Code, r.Out, r.Err)
	}
	for _, line := range []string{
		"cat " + state + "/operator/key.pem",
		"ls " + state,
		"curl -sf --unix-socket " + state + "/palyrad.sock http://palyra/",
		"palyrad presence reset x --state-dir " + state,
		fmt.Sprintf("kill -STOP %d", palyrad),
		"echo > " + filepath.Join(p.bin, "palyra-hook"),
		"rm " + filepath.Join(p.bin, "palyra-hook"),
		"rm " + p.hooks(),
	} {
		p.fails(line)
	}
}

// hooks returns the path of the socket on which palyrad serves the person's agents.
func (p *person) hooks() string {
	return filepath.Join(filepath.Dir(filepath.Dir(p.home)), "run", "hooks.sock")
}

// fails runs a line as a program of the person and fails the test if the line succeeds.
func (p *person) fails(line string) {
	p.t.Helper()
	if r := process.Finish(p.t, p.command("/bin/sh", "-c", line)); r.Code == 0 {
		p.t.Errorf("a program of the person can do this: %s\n%s", line, r.Out)
	}
}
