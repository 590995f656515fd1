//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// deviceOf returns the device id of a client's credential.
func deviceOf(c *client) string {
	c.g.T.Helper()
	var s struct {
		Caller struct {
			DeviceID string `json:"device_id"`
		} `json:"caller"`
	}
	must.Do(c.g.T, json.Unmarshal([]byte(c.ok("status", "-o", "json")), &s))
	return s.Caller.DeviceID
}

// TestLostLaptop: with two operators, one command handles one lost laptop. It lists the
// laptop's actions and the commands that revert them. The other operator's device keeps
// working.
func TestLostLaptop(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	local := g.local()
	bob := g.add("bob", "--role", "operator")
	call := local.begin("call", "fs.write", "path=b.txt", "content=new", "mode=overwrite")
	bob.allow(call.asked(), "--allow", "session").Want(t, 0)
	call.wait().Want(t, 0)
	bob.ok("call", "echo", "text=hello")
	laptop := deviceOf(bob)
	watch := bob.begin("approvals", "watch")

	// Control: before the revocation bob's device works. The actions of a device can be listed at
	// any time.
	shown := local.ok("devices", "show", laptop)
	r := local.run("devices", "revoke", laptop, "--reason", "left on a train", "--yes")
	r.Want(t, 0)
	for _, text := range []string{shown, r.Out} {
		for _, want := range []string{laptop, "user:bob", "allowed an approval", "made a grant", "called echo", "revert: palyra grants revoke ", "revert: palyra approvals cancel "} {
			if !strings.Contains(text, want) {
				t.Errorf("the list lacks %q:\n%s", want, text)
			}
		}
	}
	if !strings.Contains(r.Out, "revoked") {
		t.Errorf("the device is not revoked:\n%s", r.Out)
	}
	watch.wait().Want(t, 6, "UNAUTHENTICATED")
	if r := bob.run("status"); r.Code == 0 {
		t.Error("the lost laptop still connects")
	}
	// A listed command works: it revokes the grant.
	_, rest, _ := strings.Cut(r.Out, "revert: palyra grants revoke ")
	grant, _, _ := strings.Cut(rest, "\n")
	local.ok("grants", "revoke", grant, "--yes")
	call = local.begin("call", "fs.write", "path=b.txt", "content=newer", "mode=overwrite")
	local.allow(call.asked()).Want(t, 0) // the sole operator can approve their own calls again
	call.wait().Want(t, 0)
}

// TestSoleOwnerRegainsAccess: a sole owner who lost the key regains access on the host with one
// command, and the lost key is no longer valid.
func TestSoleOwnerRegainsAccess(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"while palyrad runs": true, "while it does not": false} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t)
			lost := filepath.Join(g.Dir, "lost")
			must.Do(t, os.CopyFS(lost, os.DirFS(g.bundle())))
			for _, e := range must.Get(os.ReadDir(lost))(t) {
				must.Do(t, os.Chmod(filepath.Join(lost, e.Name()), 0o600))
			}
			must.Do(t, os.Chmod(lost, 0o700))
			thief := &client{g: g, credentials: lost}
			thief.ok("status")
			if !running {
				g.Stop()
			}
			fresh := filepath.Join(g.Dir, "fresh")
			g.palyrad("operator", "bundle", "local", "--revoke-old", "--out", fresh, "--yes").Want(t, 0)
			if !running {
				g.Start()
			}
			// The test's gateway gets a new port at each start.
			ready := process.ReadyLine.FindAllString(g.Log().String(), -1)
			_, at, _ := strings.Cut(ready[len(ready)-1], "api=")
			at, _, _ = strings.Cut(at, " ")
			endpoint := strings.Replace(string(must.Get(os.ReadFile(filepath.Join(fresh, "endpoint")))(t)), g.address(), at, 1)
			for _, dir := range []string{fresh, lost, g.bundle()} {
				must.Do(t, os.WriteFile(filepath.Join(dir, "endpoint"), []byte(endpoint), 0o600))
			}
			back := &client{g: g, credentials: fresh}
			back.ok("status")
			call := back.begin("call", "fs.write", "path=b.txt", "content=new", "mode=overwrite")
			back.allow(call.asked()).Want(t, 0)
			call.wait().Want(t, 0)
			if r := thief.run("status"); r.Code == 0 {
				t.Error("the lost key still works")
			}
		})
	}
}

// TestRotationKilled kills `palyra devices rotate` at many points. Wherever it was killed, the
// credential works, and so does the next rotation.
func TestRotationKilled(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	bob := g.add("bob", "--role", "operator")
	whole := time.Now()
	bob.ok("devices", "rotate", "--self")
	step := time.Since(whole) / 12
	for n := range 14 {
		child := bob.command("devices", "rotate", "--self")
		must.Do(t, child.Start())
		time.AfterFunc(time.Duration(n)*step, func() {
			if err := child.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
		})
		_ = child.Wait() // killed, or already finished
		bob.ok("status")
	}
	bob.ok("devices", "rotate", "--self")
	bob.ok("status")
}

// TestTwoShellsAtOnce: many concurrent commands with one credential all succeed, although some
// of them renew its key.
func TestTwoShellsAtOnce(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	bob := g.add("bob", "--role", "operator")
	var all []*pending
	for range 3 {
		all = append(all, bob.begin("devices", "rotate", "--self"), bob.begin("status"), bob.begin("approvals", "list"))
	}
	for _, p := range all {
		p.wait().Want(t, 0)
	}
	g.local().ok("devices", "list")
}
