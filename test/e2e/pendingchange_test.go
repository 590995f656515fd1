//go:build linux

package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// TestPendingChange: a change that requires a second person prints its request and exits with
// code 11. The gateway applies it after the command has ended. For an added member, a
// repetition of the command completes the bundle.
func TestPendingChange(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.Stop()
	bob := g.add("bob", "--role", "owner")
	g.palyrad("members", "confirm", "bob").Want(t, 0)
	g.Start()
	local, dir := g.local(), filepath.Join(g.Dir, "eve")
	add := []string{"members", "add", "eve", "--role", "auditor", "--yes", "--out", dir}
	approve := func(id string) {
		t.Helper()
		digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(bob.ok("approvals", "show", id))
		bob.allow(process.Ask{ID: id, Digest: digest}).Want(t, 0)
	}
	r := local.run(append(add, "-o", "name")...)
	r.Want(t, 11)
	id := strings.TrimSpace(r.Out)
	if again := local.run(append(add, "-o", "name")...); again.Code != 11 || strings.TrimSpace(again.Out) != id {
		t.Errorf("asked again: %d, %s, want %s", again.Code, again.Out, id)
	}
	if strings.Contains(local.ok("members", "list"), "user:eve") {
		t.Error("added before anybody answered")
	}
	approve(id)
	must.Eventually(t, "eve is added", func() (bool, string) {
		list := local.ok("members", "list")
		return strings.Contains(list, "user:eve"), list
	})
	local.run(add...).Want(t, 0)
	if out := (&client{g: g, credentials: dir}).ok("status"); !strings.Contains(out, "user:eve") {
		t.Errorf("the bundle is not eve's:\n%s", out)
	}
	// With --wait, the command exits once the change is applied.
	change := local.begin("members", "roles", "eve", "--add", "developer", "--yes", "--wait")
	m := change.Err.Await(waitsFor, change.Ended)
	if m == nil {
		t.Fatalf("nobody is asked: %s%s", change.Out, change.Err)
	}
	approve(m[1])
	change.wait().Want(t, 0)
	if !strings.Contains(local.ok("members", "show", "eve"), "developer") {
		t.Error("exit code 0, and not applied")
	}
}
