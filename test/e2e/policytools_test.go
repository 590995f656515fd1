//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// explanation is the output of `palyra policy explain -o json`.
type explanation struct {
	Verdict       string `json:"verdict"`
	Decision      string `json:"decision"`
	PolicyVersion string `json:"policy_version"`
	Flips         []struct {
		Verdict string `json:"verdict"`
		Summary string `json:"summary"`
		Steps   []struct {
			Kind string `json:"kind"`
			Path string `json:"path"`
			File string `json:"file"`
			Line int    `json:"line"`
		} `json:"steps"`
	} `json:"flips"`
}

func (c *client) explained(args ...string) explanation {
	c.g.T.Helper()
	return decode[explanation](c.g.T, c.ok(append([]string{"policy", "explain", "-o", "json"}, args...)...))
}

const noSecretNotes = `@id("team.no-secret-notes")
@reason("notes about secrets are not read")
forbid(principal, action == Action::"tool.execute/fs.read", resource)
when { context has path && context.path like "secret*" };
`

// TestExplainNamesTheChange: the explanation of a denied call names the policy to change, and
// after that change the call is allowed. The earlier decision is still explained by the policy
// that made it.
func TestExplainNamesTheChange(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.file("secret-notes.md", "remember")
	g.policy("20-team.cedar", noSecretNotes)
	g.Start()
	me := g.local()
	me.run("call", "fs.read", "path=secret-notes.md").Want(t, 3, "POLICY_DENIED")
	decided := me.events("PAL-D103")
	payload := decode[struct {
		ID string `json:"decision_id"`
	}](t, string(decided[len(decided)-1].Payload))
	e := me.explained(payload.ID)
	if e.Verdict != "deny" || e.Decision != "denied" {
		t.Fatalf("the decision is explained as %+v", e)
	}
	named := false
	for _, f := range e.Flips {
		for _, s := range f.Steps {
			named = named || s.Kind == "policy" && s.Path == "team.no-secret-notes" && s.File == "20-team.cedar" && s.Line == 1 && f.Verdict == "allow"
		}
	}
	if !named {
		t.Fatalf("no change names the policy: %+v", e.Flips)
	}
	shown := me.ok("policy", "explain", payload.ID)
	if lines := strings.Split(shown, "\n"); !strings.HasPrefix(lines[0], "verdict       deny") || !strings.Contains(shown, "20-team.cedar:1") {
		t.Errorf("the page is\n%s", shown)
	}
	// The suggested change is simulated first.
	edited := filepath.Join(g.Dir, "20-team.cedar")
	g.write(edited, strings.Replace(noSecretNotes, `"secret*"`, `"secret/*"`, 1))
	if got := me.ok("policy", "simulate", "fs.read", "path=secret-notes.md", "--policies", edited); !strings.Contains(got, "verdict       allow") || !strings.Contains(got, "in force      deny") {
		t.Errorf("the simulation says\n%s", got)
	}
	g.activate("20-team.cedar", strings.Replace(noSecretNotes, `"secret*"`, `"secret/*"`, 1))
	me.ok("call", "fs.read", "path=secret-notes.md")
	if again := me.explained(payload.ID); again.Verdict != "deny" || again.PolicyVersion != e.PolicyVersion {
		t.Errorf("the decision is now explained as %+v", again)
	}
	if now := me.explained("fs.read", "path=secret-notes.md"); now.Verdict != "allow" {
		t.Errorf("the call is now %s", now.Verdict)
	}
}

// TestActivationSurvivesARestart: an operator activates an older version, which stays in force
// across restarts until a reload.
func TestActivationSurvivesARestart(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.file("secret-notes.md", "remember")
	me := g.local()
	read := []string{"call", "fs.read", "path=secret-notes.md"}
	free := me.status().PolicyVersion
	g.activate("20-team.cedar", noSecretNotes)
	me.run(read...).Want(t, 3, "POLICY_DENIED")
	me.ok("policy", "activate", free)
	me.ok(read...)
	if out := me.ok("policy", "versions"); !strings.Contains(out, "activated") || !strings.Contains(out, "20-team.cedar") {
		t.Errorf("the versions are\n%s", out)
	}
	if out := me.ok("policy", "diff", free); out != "" {
		t.Errorf("the version in force differs from itself:\n%s", out)
	}
	g.policy("30-more.cedar", "// a change that does not count\n"+noSecretNotes)
	must.Eventually(t, "the change is noticed", func() (bool, string) {
		said := me.ok("status")
		return strings.Contains(said, "changed and does not count"), said
	})
	g.Kill()
	g.Start()
	me.ok(read...)
	g.policy("30-more.cedar", "")
	me.ok("policy", "reload")
	me.run(read...).Want(t, 3, "POLICY_DENIED")
	if said := me.ok("status"); strings.Contains(said, "is activated") {
		t.Errorf("the activation did not end:\n%s", said)
	}
}

// TestFailingPolicyTestKeepsTheRunningSet: a set whose policy tests fail does not take effect,
// at a reload or at a start.
func TestFailingPolicyTestKeepsTheRunningSet(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("20-team.cedar", noSecretNotes)
	const tests = "members: {ada: {roles: [owner]}}\nprincipal: ada\ntests:\n" +
		"  - {name: secret notes, call: {tool: fs.read, args: {path: x}, facts: {path: secret-notes.md}}, expect: {verdict: deny, includes: [team.no-secret-notes]}}\n" +
		"  - {name: other notes, call: {tool: fs.read, args: {path: x}, facts: {path: notes.md}}, expect: {verdict: allow}}\n" +
		"  - {name: a call without a path, call: {tool: fs.read, args: {path: x}}, expect: {verdict: allow}}\n"
	g.policy("20-team.test.yaml", tests)
	g.Start()
	g.file("secret-notes.md", "remember")
	me := g.local()
	me.run("policy", "test", g.Policies, "--cover-min", "100").Want(t, 0, "3 passed, 0 failed; 100 %")
	before := me.status().PolicyVersion
	g.policy("20-team.cedar", strings.Replace(noSecretNotes, "secret*", "hidden*", 1))
	me.run("policy", "test", g.Policies).Want(t, 1, "2 passed, 1 failed")
	me.run("policy", "test", g.Policies, "--offline").Want(t, 1, "2 passed, 1 failed")
	me.run("policy", "reload").Want(t, 1, "POLICY_INVALID", `test "secret notes" failed`, "20-team.test.yaml:4:")
	if now := me.status().PolicyVersion; now != before {
		t.Errorf("the version changed from %s to %s", before, now)
	}
	me.run("call", "fs.read", "path=secret-notes.md").Want(t, 3, "POLICY_DENIED")
	g.Stop()
	g.launchRefused().Want(t, 1, `test "secret notes" failed`)
	g.policy("20-team.cedar", noSecretNotes)
	g.Start()
}
