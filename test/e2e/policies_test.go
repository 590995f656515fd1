//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// These policies express operators' rules in Cedar alone.
const (
	twoApprovers = `@id("two-approvers")
@reason("writing needs two people")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless { context.approval.approvers >= 2 };
`
	twoFromSecurity = `@id("two-from-security")
@reason("writing needs two people from security")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless { context.approval.by_role.security >= 2 };
`
	noStanding = `@id("no-standing-for-destructive")
@reason("what may destroy something is asked about each time")
forbid(principal, action in Action::"tool.execute", resource)
when { resource.destructive && context.approval.standing };
`
	onlyConsole = `@id("only-console")
@reason("writing is decided on the console")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless { context.approval.votes.contains({ role: "*", surface: "console", paired: false, present: false }) };
`
)

// activate puts a policy file in place and waits until it is in force.
func (g *gateway) activate(name, text string) {
	g.T.Helper()
	before := g.local().status().SnapshotDigest
	g.policy(name, text)
	must.Eventually(g.T, name+" is in force", func() (bool, string) {
		now := g.local().status().SnapshotDigest
		return now != before, now
	})
}

// team is a gateway with further members: bob, and carol and dave of security.
type team struct {
	*gateway
	owner, bob, carol, dave *client
}

func startTeam(t *testing.T) team {
	t.Helper()
	g := newGateway(t)
	bob := g.add("bob", "--role", "operator")
	carol := g.add("carol", "--role", "operator,security")
	dave := g.add("dave", "--role", "operator", "--role", "security")
	// The host created all of them, and confirms that they are different people.
	g.palyrad("members", "confirm", "--all").Want(t, 0)
	g.Start()
	return team{g, g.local(), bob, carol, dave}
}

// write proposes a new call of fs.write.
func (g *team) write(name string) *pending {
	return g.owner.begin("call", "fs.write", "path="+name, "content=new")
}

// stillPending checks that a vote was recorded but does not suffice.
func (g *team) stillPending(id, missing string) {
	g.T.Helper()
	if a := g.owner.approval(id); a.State != "pending" || !strings.Contains(a.Missing, missing) {
		g.T.Errorf("the approval is %s and misses %q, want pending and %q", a.State, a.Missing, missing)
	}
}

func TestPolicyAlone(t *testing.T) {
	t.Parallel()
	g := startTeam(t)
	const file = "10-approvals.cedar"
	g.sub("nothing said", func(t *testing.T) {
		call := g.write("one-is-enough")
		g.bob.allow(call.asked()).Want(t, 0)
		call.wait().Want(t, 0)
	})
	g.sub("two approvers", func(t *testing.T) {
		g.activate(file, twoApprovers)
		defer g.activate(file, "")
		call := g.write("two-approvers")
		a := call.asked()
		g.bob.allow(a).Want(t, 0)
		g.stillPending(a.ID, "the approval of 1 person")
		g.bob.allow(a).Want(t, 7) // a second vote of the same person does not count
		g.stillPending(a.ID, "the approval of 1 person")
		g.carol.allow(a).Want(t, 0)
		call.wait().Want(t, 0)
	})
	g.sub("two from one role", func(t *testing.T) {
		g.activate(file, twoFromSecurity)
		defer g.activate(file, "")
		call := g.write("two-from-security")
		a := call.asked()
		g.bob.allow(a).Want(t, 0)
		g.carol.allow(a).Want(t, 0)
		g.stillPending(a.ID, "role security")
		g.dave.allow(a).Want(t, 0)
		call.wait().Want(t, 0)
	})
	g.sub("a veto ends it", func(t *testing.T) {
		g.activate(file, twoApprovers)
		defer g.activate(file, "")
		call := g.write("veto")
		a := call.asked()
		g.bob.allow(a).Want(t, 0)
		g.carol.deny(a).Want(t, 0)
		call.wait().Want(t, 4, "APPROVAL_DENIED", "not today")
		if g.Read("veto") != "" {
			t.Error("the call ran after a veto")
		}
	})
	g.sub("only from the console", func(t *testing.T) {
		// The approval was requested before the policy, so a vote outside the console no longer
		// suffices.
		call := g.write("console")
		a := call.asked()
		g.activate(file, onlyConsole)
		defer g.activate(file, "")
		g.bob.allow(a).Want(t, 0)
		g.carol.allow(a).Want(t, 0)
		g.stillPending(a.ID, "console")
		// A client cannot claim that its vote comes from the console.
		said := g.grpcurl(g.dave.credentials, true, "-d", `{"approval_id":"`+a.ID+`","allow":true,"shown_digest":"`+a.Digest+`","surface":"console"}`, "palyra.v1.ApprovalsService/DecideApproval")
		if said.Code == 0 || !strings.Contains(said.Err, "INVALID_INPUT") {
			t.Errorf("a vote that claims the console: exit code %d, %s%s", said.Code, said.Out, said.Err)
		}
		g.stillPending(a.ID, "console")
		g.owner.ok("approvals", "cancel", a.ID)
		if r := call.wait(); r.Code == 0 || g.Read("console") != "" {
			t.Errorf("the call ended with exit code %d and the file holds %q", r.Code, g.Read("console"))
		}
		// A new call is denied at once, because the console of this gateway is disabled.
		g.write("console").wait().Want(t, 3, "APPROVAL_UNATTAINABLE", "No console is available")
	})
	g.sub("no standing grants", func(t *testing.T) { noStandingGrants(t, g, file) })
}

// noStandingGrants compares a grant for a destructive tool without the policy
// and with it.
func noStandingGrants(t *testing.T, g team, file string) {
	run := func() *pending {
		return g.owner.begin("call", "fs.write", "path=again", "content=new", "mode=overwrite")
	}
	// The file must exist already, because the approval includes the file's digest.
	g.file("again", "new")
	call := run()
	g.bob.allow(call.asked(), "--allow", "session").Want(t, 0)
	call.wait().Want(t, 0)
	run().wait().Want(t, 0) // the grant covers the call

	g.activate(file, noStanding)
	defer g.activate(file, "")
	call = run()
	a := call.asked()
	g.bob.allow(a, "--allow", "session").Want(t, 0)
	call.wait().Want(t, 0)
	call = run()
	again := call.asked()
	if again.ID == a.ID {
		t.Error("the second call waits for the approval of the first")
	}
	g.bob.deny(again).Want(t, 0)
	call.wait().Want(t, 4)
	// Other calls are not affected: a read-only tool still runs.
	g.owner.ok("call", "fs.read", "path=a.txt")
}

// TestUnattainable: if no combination of voters could give the required approval, the call is
// denied without a request, and the remedy names the missing requirement.
func TestUnattainable(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", twoFromSecurity)
	g.Start()
	c := g.local()
	call := []string{"call", "fs.write", "path=b.txt", "content=new"}
	c.run(call...).Want(t, 3, "APPROVAL_UNATTAINABLE", "security", "palyrad operator add")
	for _, name := range []string{"carol", "dave"} {
		g.add(name, "--role", "operator", "--role", "security")
	}
	// New members take effect in the policy set at once. The holder of the host's device created
	// both and could control both, until the host confirms them.
	c.run(call...).Want(t, 3, "APPROVAL_UNATTAINABLE", "palyrad members confirm")
	g.Stop()
	g.palyrad("members", "confirm", "carol", "dave").Want(t, 0)
	g.Start()
	waiting := c.begin(call...)
	waiting.asked()
	waiting.interrupt()
	waiting.wait()
}

func TestPolicyReload(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	deny := func(name string) string {
		return `@id("` + name + `") forbid(principal, action == Action::"tool.execute/fs.read", resource);`
	}
	c.ok("call", "fs.read", "path=a.txt")

	g.sub("a changed file", func(t *testing.T) {
		g.activate("10.cedar", deny("no-reading"))
		c.run("call", "fs.read", "path=a.txt").Want(t, 3, "POLICY_DENIED", "no-reading", "10.cedar:1")
		g.activate("10.cedar", "")
		c.ok("call", "fs.read", "path=a.txt")
	})
	g.sub("SIGHUP", func(t *testing.T) {
		// The link's target is in a directory that palyrad does not watch.
		target := filepath.Join(g.Dir, "elsewhere.cedar")
		g.write(target, deny("first"))
		before := c.status().PolicyVersion
		must.Do(t, os.Symlink(target, filepath.Join(g.Policies, "20.cedar")))
		must.Eventually(t, "the link is followed", func() (bool, string) { v := c.status().PolicyVersion; return v != before, v })
		loaded := c.status().PolicyVersion
		g.write(target, deny("second"))
		c.run("call", "fs.read", "path=a.txt").Want(t, 3, "first")
		g.Signal(syscall.SIGHUP)
		must.Eventually(t, "SIGHUP reloads", func() (bool, string) { v := c.status().PolicyVersion; return v != loaded, v })
		c.run("call", "fs.read", "path=a.txt").Want(t, 3, "second")
		g.activate("20.cedar", "")
		c.ok("call", "fs.read", "path=a.txt")
	})
	for name, text := range map[string]string{
		"syntax":        `permit(principal, action, resource`,
		"unknown":       `@id("x") forbid(principal, action == Action::"tool.execute/fs.raed", resource);`,
		"type":          `@id("x") forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context.approval.approvers == "two" };`,
		"silent waiver": `@id("x") permit(principal, action in Action::"tool.execute", resource);`,
	} {
		g.sub("broken: "+name, func(t *testing.T) { brokenPolicy(t, g, text) })
	}
}

// brokenPolicy checks that a set that does not load changes nothing, and that the journal names
// the error's position.
func brokenPolicy(t *testing.T, g *gateway, text string) {
	c := g.local()
	before, rejected := c.status(), len(c.events("PAL-P101"))
	g.policy("30.cedar", text)
	var events []journaled
	must.Eventually(t, "the journal says that it does not load", func() (bool, string) {
		events = c.events("PAL-P101")
		return len(events) > rejected, "no PAL-P101"
	})
	if payload := string(events[len(events)-1].Payload); !strings.Contains(payload, `"30.cedar"`) || !strings.Contains(payload, `"line":1`) {
		t.Errorf("the event does not say where: %s", payload)
	}
	after := c.status()
	if after.PolicyVersion != before.PolicyVersion || after.SnapshotDigest != before.SnapshotDigest {
		t.Errorf("a set that does not load is in force: %+v, was %+v", after, before)
	}
	c.ok("call", "fs.read", "path=a.txt")
	c.run("policy", "reload").Want(t, 1, "POLICY_INVALID", "30.cedar")
	c.run("policy", "check", g.Policies).Want(t, 1)
	g.policy("30.cedar", "")
	c.ok("policy", "reload")
	if now := c.status().PolicyVersion; now != before.PolicyVersion {
		t.Errorf("after mending it the version is %s, was %s", now, before.PolicyVersion)
	}
	if !slices.ContainsFunc(events, func(e journaled) bool { return e.Actor == "service:palyrad" }) {
		t.Errorf("no event names the daemon as its actor: %v", events)
	}
}
