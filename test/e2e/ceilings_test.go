//go:build linux

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"palyra/test/process"
)

// waitsFor matches the output of a change that waits for a second person.
var waitsFor = regexp.MustCompile("waiting for another owner or admin.*approval (\\S+), `palyra approve")

// TestCeilingTakesTwo: admitting a caller requires a second person, whose vote decides;
// blocking a caller requires one.
func TestCeilingTakesTwo(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.Stop()
	bob := g.add("bob", "--role", "owner")
	g.palyrad("members", "confirm", "bob").Want(t, 0)
	g.Start()
	local := g.local()
	ask := func(channel string) (*pending, process.Ask) {
		t.Helper()
		change := local.begin("access", "allow", "--wait", channel)
		m := change.Err.Await(waitsFor, change.Ended)
		if m == nil {
			t.Fatalf("nobody is asked: %s%s", change.Out, change.Err)
		}
		shown := bob.ok("approvals", "show", m[1])
		if !strings.Contains(shown, channel) {
			t.Errorf("the question is:\n%s", shown)
		}
		return change, process.Ask{ID: m[1], Digest: regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(shown)}
	}
	listed := func(channel string) bool { return strings.Contains(local.ok("access", "ceilings"), channel) }

	change, question := ask("channel:ops")
	local.allow(question).Want(t, 3, "PERMISSION_DENIED")
	if listed("channel:ops") {
		t.Error("let in before anybody answered")
	}
	bob.allow(question).Want(t, 0)
	change.wait().Want(t, 0)
	if !listed("channel:ops") {
		t.Error("not let in after a yes")
	}
	change, question = ask("channel:spam")
	bob.deny(question).Want(t, 0)
	change.wait().Want(t, 4, "APPROVAL_DENIED")
	if listed("channel:spam") {
		t.Error("let in after a no")
	}
	local.run("access", "forbid", "channel:ops").Want(t, 0)

	// Control: a sole owner needs no second approver.
	alone := startGateway(t)
	r := alone.local().run("access", "allow", "channel:ops")
	if r.Want(t, 0); !strings.Contains(r.Err, "applied without a second approver") {
		t.Errorf("alone: %s", r.Err)
	}
	if events := alone.local().events("PAL-P108"); len(events) != 1 {
		t.Errorf("the journal of one person has %d changes", len(events))
	}
}
