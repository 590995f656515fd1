//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// types runs palyra at a terminal and types these lines.
func (c *client) types(lines string, args ...string) process.Result {
	c.g.T.Helper()
	return process.AtTerminal(c.g.T, c.command(args...), lines)
}

const somebodyThere = `@id("somebody-there") forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: true, present: true }) };`

// TestPresence: if policy demands presence, only the passphrase of the presence key approves a
// call. A copy of everything that the client stores does not suffice without the passphrase.
// Control: the same commands with the passphrase.
func TestPresence(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("present.cedar", somebodyThere)
	g.Start()
	local := g.local()
	r := local.types("correct horse\ncorrect horse\n", "key", "presence", "--passphrase")
	r.Want(t, 0)
	if !strings.Contains(r.Out, "vote with --present") {
		t.Errorf("made: %s", r.Out)
	}
	copied := filepath.Join(g.Dir, "copied")
	must.Do(t, os.CopyFS(copied, os.DirFS(g.bundle())))
	must.Do(t, os.Chmod(copied, 0o700))
	for _, f := range must.Get(os.ReadDir(copied))(t) {
		must.Do(t, os.Chmod(filepath.Join(copied, f.Name()), 0o600))
	}
	thief := &client{g: g, credentials: copied}

	call := local.begin("call", "fs.write", "path=b.txt", "content=new", "mode=overwrite")
	asked := call.asked()
	answer := []string{"approve", asked.ID, "--digest", asked.Digest}
	r = thief.run(answer...)
	r.Want(t, 0, "palyra approve "+asked.ID+" --present")
	if !strings.Contains(r.Out, "pending") || !strings.Contains(r.Out, "with presence proven") {
		t.Errorf("a yes without presence: %s", r.Out)
	}
	proven := append(answer, "--present", "--yes")
	thief.run(proven...).Want(t, 6, "without a terminal")
	thief.types("wrong horse\n", proven...).Want(t, 3, "PRESENCE_NOT_PROVEN")
	// A key of the thief's cannot replace the presence key.
	thief.types("mine is mine\nmine is mine\nwrong horse\n", "key", "presence", "--passphrase").Want(t, 3, "PRESENCE_NOT_PROVEN")
	must.Do(t, os.Remove(filepath.Join(copied, "presence.kept")))
	thief.types("mine is mine\nmine is mine\n", "key", "presence", "--passphrase").Want(t, 3, "palyrad presence reset")
	if got := g.Read("b.txt"); got == "new" {
		t.Fatal("the call ran")
	}

	local.types("correct horse\n", proven...).Want(t, 0)
	call.wait().Want(t, 0)
	if got := g.Read("b.txt"); got != "new" {
		t.Errorf("the file has %q", got)
	}
	votes := local.events("PAL-A102")
	if last := votes[len(votes)-1]; !strings.Contains(string(last.Payload), `"present":true`) {
		t.Errorf("the vote is %s", last.Payload)
	}
}

// TestPresenceReset: the gateway's host removes a key with a forgotten passphrase, while
// palyrad runs and while it does not. Every member is notified, and the journal records the
// reset.
func TestPresenceReset(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	local := g.local()
	device := deviceOf(local)
	for _, running := range []bool{true, false} {
		local.types("correct horse\ncorrect horse\n", "key", "presence", "--passphrase").Want(t, 0)
		if !running {
			g.Stop()
		}
		r := g.palyrad("presence", "reset", device)
		r.Want(t, 0)
		if !running {
			g.Start()
		}
		if !strings.Contains(r.Out, device) || !strings.Contains(local.ok("status"), "the gateway's host removed the presence key of device "+device) {
			t.Errorf("running %v: %s%s", running, r.Out, r.Err)
		}
		if shown := local.ok("devices", "show", device); !strings.Contains(shown, "no presence key") {
			t.Errorf("running %v: %s", running, shown)
		}
	}
	if n := len(local.events("PAL-I161")); n != 2 {
		t.Errorf("%d events", n)
	}
}
