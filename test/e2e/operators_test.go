//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra/internal/core/must"
)

// TestSecondOperator adds people and an agent, with the daemon running and stopped, and checks
// who may decide whose calls.
func TestSecondOperator(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	local := g.local()
	write := func(c *client) *pending {
		return c.begin("call", "fs.write", "path=b.txt", "content=new", "mode=overwrite")
	}

	// A sole operator can approve their own call.
	call := write(local)
	local.allow(call.asked()).Want(t, 0)
	call.wait().Want(t, 0)

	bob := g.add("bob", "--role", "operator")
	if who := bob.status().Caller; who.Principal != "user:bob" || !slices.Equal(who.Roles, []string{"operator"}) {
		t.Fatalf("bob's credential says %+v", who)
	}
	checkBundle(t, bob.credentials)

	// From now on, another person must approve.
	call = write(local)
	waiting := call.asked()
	local.allow(waiting).Want(t, 3, "PERMISSION_DENIED")
	if a := local.approval(waiting.ID); a.State != "pending" || len(a.Votes) != 0 {
		t.Fatalf("after the refused vote the approval is %+v", a)
	}
	bob.allow(waiting).Want(t, 0)
	call.wait().Want(t, 0)

	// Without a daemon, the command changes the state directory directly.
	g.Stop()
	carol := g.add("carol", "--role", "operator")
	checkBundle(t, carol.credentials)
	g.Start()
	call = write(bob)
	waiting = call.asked()
	bob.allow(waiting).Want(t, 3, "PERMISSION_DENIED")
	carol.allow(waiting).Want(t, 0)
	call.wait().Want(t, 0)

	added := local.events("PAL-I102")
	for _, name := range []string{"user:local", "user:bob", "user:carol"} {
		if !slices.ContainsFunc(added, func(e journaled) bool { return e.Subject == name }) {
			t.Errorf("the journal does not say that %s was added", name)
		}
	}

	g.sub("agent", func(t *testing.T) { agentNeverDecides(t, g, bob) })
}

// agentNeverDecides: an agent calls on behalf of its owner, and cannot answer approvals.
func agentNeverDecides(t *testing.T, g *gateway, bob *client) {
	agent := g.add("helper", "--owner", "local", "--role", "agent")
	if who := agent.status().Caller; who.Principal != "agent:helper" || who.OnBehalfOf != "user:local" {
		t.Fatalf("the agent's credential says %+v", who)
	}
	agent.ok("call", "fs.read", "path=a.txt")
	own := agent.begin("call", "fs.write", "path=c.txt", "content=new")
	waiting := own.asked()
	agent.allow(waiting).Want(t, 3, "PERMISSION_DENIED")
	others := bob.begin("call", "fs.write", "path=d.txt", "content=new")
	waitingOther := others.asked()
	agent.allow(waitingOther).Want(t, 3, "PERMISSION_DENIED")
	agent.deny(waitingOther).Want(t, 3, "PERMISSION_DENIED")
	agent.run("approvals", "list").Want(t, 3)
	agent.run("freeze").Want(t, 3)
	agent.run("journal", "list").Want(t, 3)
	// The agent's owner counts as the requester, so with two users the owner may not decide
	// either.
	g.local().allow(waiting).Want(t, 3, "PERMISSION_DENIED")
	bob.allow(waiting).Want(t, 0)
	own.wait().Want(t, 0)
	g.local().allow(waitingOther).Want(t, 0)
	others.wait().Want(t, 0)
	g.palyrad("operator", "add", "deputy", "--owner", "local", "--role", "operator", "--out", filepath.Join(g.Dir, "deputy")).Want(t, 2, "cannot hold the role", "next: ")
}

// checkBundle fails unless only its owner can read a bundle.
func checkBundle(t *testing.T, dir string) {
	t.Helper()
	for name, mode := range map[string]os.FileMode{"": 0o700, "key.pem": 0o600, "cert.pem": 0o600, "ca.pem": 0o600, "endpoint": 0o600} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %04o, want %04o", filepath.Join(dir, name), info.Mode().Perm(), mode)
		}
	}
}

// TestReadableKeyIsRefused: a key file that others can read is refused.
func TestReadableKeyIsRefused(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	bob := g.add("bob", "--role", "operator")
	key := filepath.Join(bob.credentials, "cert.pem")
	for _, mode := range []os.FileMode{0o640, 0o604} {
		bob.ok("status")
		must.Do(t, os.Chmod(key, mode))
		bob.run("status").Want(t, 2, "CONFIG_INVALID", "chmod", key)
		must.Do(t, os.Chmod(key, 0o600))
	}
	bob.ok("status")
}
