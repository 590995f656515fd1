//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// wantsTwo is a rule that requires two approvers for b.txt.
const wantsTwo = `@id("two")
@reason("b.txt needs two people")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context has path && context.path == "b.txt" }
unless { context.approval.approvers >= 2 };
`

// write starts a call that requires approval; b.txt requires two approvers.
func (c *client) write(file string) *pending {
	c.g.T.Helper()
	return c.begin("call", "fs.write", "path="+file, "content="+time.Now().Format(time.RFC3339Nano), "mode=overwrite")
}

// works makes a call of one member and has the others approve it.
func works(t *testing.T, c *client, file string, voters ...*client) {
	t.Helper()
	call := c.write(file)
	waiting := call.asked()
	for _, v := range voters {
		v.allow(waiting).Want(t, 0)
	}
	call.wait().Want(t, 0)
}

// TestTeamCreatedByOneOwner: one owner creates a team of any size, and all members can work at
// once. An operation that requires two people names the next step at once, and succeeds after the
// gateway's host has confirmed the members.
func TestTeamCreatedByOneOwner(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 50} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, "[rate_limits.mutate]", "per_second = 1000", "burst = 1000")
			g.policy("two.cedar", wantsTwo)
			g.Start()
			team := []*client{g.local()}
			for n := range size - 1 {
				team = append(team, g.add(fmt.Sprintf("member-%d", n), "--role", "operator"))
			}
			first, last := team[0], team[size-1]
			works(t, first, "a.txt", last)
			works(t, last, "a.txt", first)
			works(t, team[size/2], "a.txt", team[(size/2+1)%size])

			// From the caller's point of view, one person could control all other members.
			alone := first.run("call", "fs.write", "path=b.txt", "content=x")
			alone.Want(t, 3, "APPROVAL_UNATTAINABLE")
			if size > 2 && !strings.Contains(alone.Err, "palyrad members confirm") {
				t.Errorf("it says no way: %s", alone.Err)
			}
			g.Stop()
			g.palyrad("members", "confirm", "--all").Want(t, 0)
			g.Start()
			if size < 3 {
				// There are fewer than two other members.
				last.run("call", "fs.write", "path=b.txt", "content=x").Want(t, 3, "APPROVAL_UNATTAINABLE")
				return
			}
			works(t, first, "b.txt", last, team[size/2])
			works(t, last, "b.txt", first, team[size/2])
		})
	}
}

// TestCircularConfirmation: A creates X, X creates Y, X confirms Y and Y confirms X. For a call
// of A, both count as A. Control: D, whom the host confirmed, can confirm X and Y.
func TestCircularConfirmation(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	// Changes of members need no second approver here, because the test is about the policy's view
	// of members.
	g.write(g.Config, "dual_control = false\n"+string(must.Get(os.ReadFile(g.Config))(t)))
	g.policy("two.cedar", wantsTwo)
	g.Start()
	a := g.local()
	add := func(by *client, name string) *client {
		t.Helper()
		dir := filepath.Join(g.Dir, name)
		by.ok("members", "add", name, "--role", "owner", "--yes", "--out", dir)
		return &client{g: g, credentials: dir}
	}
	g.Stop()
	d := g.add("d", "--role", "admin")
	g.palyrad("members", "confirm", "d").Want(t, 0)
	g.Start()
	x := add(a, "x")
	y := add(x, "y")
	for _, word := range []struct {
		who  *client
		whom string
	}{{a, "x"}, {x, "y"}, {y, "x"}} {
		word.who.run("members", "confirm", word.whom).Want(t, 3, "PERMISSION_DENIED")
	}
	// Only D is independent of A, and for D the other three count as one person.
	for _, who := range []*client{a, d} {
		who.run("call", "fs.write", "path=b.txt", "content=x").Want(t, 3, "APPROVAL_UNATTAINABLE")
	}
	for _, whom := range []string{"x", "y"} {
		d.ok("members", "confirm", whom)
	}
	works(t, a, "b.txt", x, y)
}
