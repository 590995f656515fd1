//go:build linux

package e2e

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// TestPendingApprovalSurvives ends palyrad in order and by SIGKILL while a call waits. The
// approval can still be decided, and a repetition of the call uses it.
func TestPendingApprovalSurvives(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*gateway){"SIGTERM": (*gateway).Stop, "SIGKILL": (*gateway).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t)
			c := g.local()
			args := []string{"call", "fs.write", "path=b.txt", "content=new"}
			call := c.begin(args...)
			a := call.asked()
			if c.approval(a.ID).RunGone {
				t.Error("the run is said to be gone while its call waits")
			}
			end(g)
			if r := call.wait(); r.Code == 0 || g.Read("b.txt") != "" {
				t.Fatalf("the call ended with exit code %d and the file holds %q\n%s", r.Code, g.Read("b.txt"), r.Err)
			}

			g.Start()
			after := c.approval(a.ID)
			if after.State != "pending" || !after.RunGone {
				t.Fatalf("after the restart the approval is %+v, want pending with its run gone", after)
			}
			c.allow(a).Want(t, 0)
			if g.Read("b.txt") != "" {
				t.Fatal("the call ran though its run is gone")
			}
			c.run(args...).Want(t, 0)
			if g.Read("b.txt") != "new" {
				t.Errorf("the file holds %q", g.Read("b.txt"))
			}
			if got := c.lastAttestation().Statement.Predicate.Invocation.ApprovalID; got != a.ID {
				t.Errorf("the call cites approval %s, want %s", got, a.ID)
			}
			if state := c.approval(a.ID).State; state != "consumed" {
				t.Errorf("the approval is %s, want consumed", state)
			}
			c.ok("journal", "verify")
		})
	}
}

// TestRetryJoinsAfterRestart: the call is retried before the approval is decided.
func TestRetryJoinsAfterRestart(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	args := []string{"call", "fs.write", "path=b.txt", "content=new"}
	first := c.begin(args...)
	a := first.asked()
	g.Kill()
	first.wait()
	g.Start()
	again := c.begin(args...)
	if joined := again.asked(); joined != a {
		t.Errorf("the call waits for %v, want %v", joined, a)
	}
	if c.approval(a.ID).RunGone {
		t.Error("a call waits, and the approval says that its run is gone")
	}
	c.allow(a).Want(t, 0)
	again.wait().Want(t, 0)
}

// TestGrantsSurvive: a grant remains valid after a restart, and a revocation ends it at once.
func TestGrantsSurvive(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	list := []string{"call", "process.run", `argv=["ls"]`}
	call := c.begin(list...)
	a := call.asked()
	c.allow(a, "--allow", "timeboxed", "--for", "30m", "--match", "subject").Want(t, 0)
	call.wait().Want(t, 0)
	grant := c.approval(a.ID).GrantID
	if grant == "" {
		t.Fatal("the vote minted no grant")
	}
	// The grant covers ls in this workspace, with any arguments.
	c.ok("call", "process.run", `argv=["ls","-l"]`)
	g.Kill()
	g.Start()
	c.ok(list...)
	if got := c.lastAttestation().Statement.Predicate.Invocation.GrantID; got != grant {
		t.Errorf("the call cites grant %q, want %s", got, grant)
	}
	// The grant does not cover another program.
	other := c.begin("call", "process.run", `argv=["cat","a.txt"]`)
	c.deny(other.asked()).Want(t, 0)
	other.wait().Want(t, 4)

	c.ok("call", "process.run", `argv=["ls","-l"]`)
	c.ok("grants", "revoke", grant, "--yes", "--reason", "done")
	call = c.begin(list...)
	c.deny(call.asked()).Want(t, 0)
	call.wait().Want(t, 4)
	if n := c.status().LiveGrants; n != 0 {
		t.Errorf("%d grants are live after the revoke", n)
	}
}

// TestInterruptKeepsTheApproval: Ctrl-C during a waiting call keeps its approval pending, and an
// approval still starts the call.
func TestInterruptKeepsTheApproval(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	call := c.begin("call", "fs.write", "path=b.txt", "content=new")
	a := call.asked()
	call.interrupt()
	call.wait().Want(t, 130, "interrupted")
	if state := c.approval(a.ID).State; state != "pending" {
		t.Errorf("the approval is %s", state)
	}
	c.allow(a).Want(t, 0, "")
	must.Eventually(t, "the call ran", func() (bool, string) { return g.Read("b.txt") == "new", g.Read("b.txt") })
}

// TestKilledWhileRunning kills palyrad while a program runs. The program dies with it, and the
// next start closes the call as ambiguous.
func TestKilledWhileRunning(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	call, running := beginSleeping(t, c, 3002)
	g.Kill()
	if r := call.wait(); r.Code == 0 {
		t.Errorf("the call ended with exit code 0: %s%s", r.Out, r.Err)
	}
	must.Eventually(t, "the program is gone", func() (bool, string) { return !running(), "it runs" })
	g.Start()
	closed := c.events("PAL-X101")
	if len(closed) != 1 || !strings.Contains(string(closed[0].Payload), "OUTCOME_UNKNOWN") {
		t.Errorf("the start closed %s, want one call", closed)
	}
	c.ok("journal", "verify")
}

// TestStopFinishesRunningCalls: running calls get some time to finish, and finished ones are
// attested.
func TestStopFinishesRunningCalls(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	call := c.begin("call", "sleep", "duration_ms=2000", "-o", "ndjson")
	if call.Out.Await(regexp.MustCompile(`"decision":.*"allowed":true`), call.Ended) == nil {
		t.Fatalf("the call was not decided\nstdout: %s\nstderr: %s", call.Out, call.Err)
	}
	g.Signal(syscall.SIGTERM)
	call.wait().Want(t, 0)
	g.Wait(g.T)
	g.Start()
	if got := c.lastAttestation().Statement.Predicate.Result.Outcome; got != "succeeded" {
		t.Errorf("the call is attested as %s", got)
	}
}
