//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/test/process"
)

// backUp writes a backup of a gateway and returns the backup file and the identity file.
func (g *gateway) backUp(name string) (file, identity string) {
	g.T.Helper()
	id := must.Get(age.GenerateX25519Identity())(g.T)
	identity, file = filepath.Join(g.T.TempDir(), "identity"), filepath.Join(g.T.TempDir(), name) // not a key of the gateway
	g.write(identity, id.String()+"\n")
	g.palyrad("backup", file, "--recipient", id.Recipient().String()).Want(g.T, 0, "not in the backup: workspace default")
	return file, identity
}

// restoreTo restores a backup as a new gateway that is not yet started. It has the policies of
// the backup and its own workspace.
func restoreTo(t *testing.T, file, identity string, flags ...string) (*gateway, process.Result) {
	t.Helper()
	h := newGateway(t)
	cmd := exec.CommandContext(t.Context(), h.Program, append([]string{"restore", file, "--to", h.State, "--identity", identity}, flags...)...)
	cmd.Env, cmd.Dir = process.Environment(h.Dir), h.Dir
	r := process.Finish(t, cmd)
	r.Want(t, 0)
	for _, from := range must.Get(filepath.Glob(filepath.Join(h.State, "restored", "policy", "*")))(t) {
		h.write(filepath.Join(h.Policies, filepath.Base(from)), string(must.Get(os.ReadFile(from))(t)))
	}
	return h, r
}

// wantDoctor fails if palyrad doctor does not print a text; its findings about the machine are
// ignored.
func (g *gateway) wantDoctor(text string) {
	g.T.Helper()
	if out := g.palyrad("doctor").Out; !strings.Contains(out, text) {
		g.T.Errorf("the doctor does not say %q:\n%s", text, out)
	}
}

// sees makes a client verify the whole journal, and returns the checkpoint.
func (c *client) sees() string {
	c.g.T.Helper()
	size := decode[struct {
		Size json.Number `json:"journal_size"`
	}](c.g.T, c.ok("status", "-o", "json")).Size
	proof := decode[struct {
		Checkpoint string `json:"checkpoint"`
	}](c.g.T, c.ok("journal", "prove", size.String(), "-o", "json"))
	return proof.Checkpoint
}

// TestBackupAndRestore makes a backup while calls run, and restores it in another directory.
// The restored gateway is frozen and has no approvals or grants.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", "// of people here\n")
	g.Start()
	c := g.local()
	granted := c.begin("call", "process.run", `argv=["ls"]`)
	a := granted.asked()
	c.allow(a, "--allow", "timeboxed", "--for", "30m", "--match", "subject").Want(t, 0)
	granted.wait().Want(t, 0)
	unused := c.begin("call", "fs.write", "path=c.txt", "content=new")
	allowed := unused.asked()
	g.Kill()
	unused.wait()
	g.Start()
	c.allow(allowed).Want(t, 0) // its call has ended, so no call uses the approval
	waiting := c.begin("call", "fs.write", "path=b.txt", "content=new")
	pending := waiting.asked()

	load := make(chan int)
	stop := make(chan struct{})
	go func() {
		n := 0
		defer func() { load <- n }()
		for {
			select {
			case <-stop:
				return
			default:
				if process.Finish(t, c.command("call", "echo", "text=hi")).Code == 0 {
					n++
				}
			}
		}
	}()
	file, identity := g.backUp("gateway.age")
	close(stop)
	if n := <-load; n == 0 {
		t.Error("no call ran beside the backup")
	}
	// Everything after the backup is lost.
	c.deny(pending).Want(t, 0)
	waiting.wait()
	c.ok("members", "add", "bob", "--role", "operator", "--yes", "--out", filepath.Join(g.Dir, "bob"))
	last := filepath.Join(g.Dir, "last-head")
	g.write(last, c.sees())
	g.Stop()

	h, said := restoreTo(t, file, identity, "--last-head", last)
	for _, want := range []string{"lost      the events", "palyra devices revoke", "user:local"} {
		if !strings.Contains(said.Out, want) {
			t.Errorf("the restore does not say %q:\n%s", want, said.Out)
		}
	}
	h.wantDoctor("and not started since; it starts frozen")
	h.palyrad("backup", filepath.Join(h.Dir, "too-early"), "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").Want(t, 2, "has not been started since")
	h.Start()
	d := h.local()
	s := d.status()
	if !s.Freeze.Frozen || !strings.HasPrefix(s.Freeze.Reason, "restored from a backup of ") || s.LiveGrants != 0 {
		t.Errorf("the restored gateway: %+v, %d grants", s.Freeze, s.LiveGrants)
	}
	if notices := strings.Join(s.Notices, "\n"); !strings.Contains(notices, "restored from a backup of ") || !strings.Contains(notices, "palyra thaw") {
		t.Errorf("notices: %s", notices)
	}
	h.wantDoctor("palyra thaw")
	d.run("call", "echo", "text=hi").Want(t, 3, "GATEWAY_FROZEN")
	for id, want := range map[string]string{pending.ID: "cancelled", allowed.ID: "revoked"} {
		if state := d.approval(id).State; state != want {
			t.Errorf("approval %s is %s, want %s", id, state, want)
		}
	}
	events := d.events("PAL-J105")
	if len(events) != 1 {
		t.Fatalf("%d events of the restore", len(events))
	}
	var payload struct {
		Backup struct{ Size int64 } `json:"backup"`
		Newest struct {
			Size   int64
			Proven bool
		} `json:"newest"`
		Ended struct{ Grants int } `json:"ended"`
	}
	must.Do(t, json.Unmarshal(events[0].Payload, &payload))
	if payload.Backup.Size == 0 || payload.Newest.Size <= payload.Backup.Size || !payload.Newest.Proven || payload.Ended.Grants != 1 {
		t.Errorf("the event says %s", events[0].Payload)
	}
	d.ok("journal", "verify")
	h.Kill()
	h.Start()
	if n := len(d.events("PAL-J105")); n != 1 {
		t.Errorf("a second start has %d events of the restore", n)
	}
	d.run("call", "echo", "text=hi").Want(t, 3, "GATEWAY_FROZEN")
	d.ok("thaw")
	d.ok("call", "echo", "text=hi")
	again := d.begin("call", "process.run", `argv=["ls"]`)
	d.deny(again.asked()).Want(t, 0) // the grant no longer exists
	again.wait()
	h.wantDoctor("and thawed since")
	h.palyrad("backup", filepath.Join(h.Dir, "again.age"), "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").Want(t, 0)
}

// TestKeysRenewedSinceTheBackup: a device renewed its key after the backup, and the restored
// gateway does not have the new key. The gateway accepts the device, and raises no alarm about
// a copied key. Control: the replaced key.
func TestKeysRenewedSinceTheBackup(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	bob := g.add("bob", "--role", "operator")
	bob.ok("status")
	file, key := g.backUp("gateway.age")
	old := filepath.Join(g.Dir, "old")
	must.Do(t, os.CopyFS(old, os.DirFS(bob.credentials)))
	must.Do(t, exec.Command("chmod", "-R", "go=", old).Run())
	// Certificate times have a resolution of one second.
	made := must.Get(identity.ReadBundle(old))(t).Chain[0].NotAfter.Add(-ca.LeafLife)
	must.Eventually(t, "another second begins", func() (bool, string) { return time.Since(made) > time.Second, "" })
	bob.ok("devices", "rotate", "--self")
	bob.ok("status")
	g.Stop()

	h, _ := restoreTo(t, file, key)
	h.Start()
	renewed := &client{g: h, credentials: bob.credentials}
	renewed.ok("status")
	older := &client{g: h, credentials: old}
	older.ok("status") // valid for five more minutes
	if notices := strings.Join(h.local().status().Notices, "\n"); strings.Contains(notices, "replaced key") {
		t.Errorf("notices: %s", notices)
	}
	lost := 0
	for _, e := range h.local().events("PAL-I150") {
		if strings.Contains(string(e.Payload), `"lost":true`) && e.Actor == "user:bob" {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("the journal says of %d keys that their certificates were lost", lost)
	}
	renewed.ok("devices", "rotate", "--self")
	renewed.ok("status")
	h.Stop()
	h.Start()
	renewed.ok("status")
	if keys := h.local().ok("devices", "show", deviceOf(renewed)); strings.Count(keys, "replaced: ends in") != 2 {
		t.Errorf("the keys of before do not end:\n%s", keys)
	}
}

// TestClientsNoticeARestore: a client that saw a newer journal gets an error from every command
// until it accepts the journal's restore event. After that, the client rejects the other copy.
func TestClientsNoticeARestore(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	c.ok("status") // the client stores the first checkpoint
	file, identity := g.backUp("gateway.age")
	for range 10 {
		c.ok("call", "echo", "text=lost")
	}
	c.sees()
	c.ok("status")

	h, _ := restoreTo(t, file, identity)
	h.Start() // both copies run
	d := &client{g: h, home: g.Dir}
	rolledBack := func(r process.Result) {
		t.Helper()
		r.Want(t, 8, "was rolled back", "palyra journal accept-restore")
	}
	rolledBack(d.run("status"))
	rolledBack(d.run("journal", "prove", "1"))
	rolledBack(d.run("journal", "verify"))
	d.run("journal", "list", "--last", "1").Want(t, 0, "was rolled back")
	d.ok("thaw")
	for range 30 { // the journal is now longer than the client saw, so it is a fork
		d.ok("call", "echo", "text=other")
	}
	forked := func(r process.Result) {
		t.Helper()
		r.Want(t, 8, "was forked", "palyra journal accept-restore")
	}
	(&client{g: h}).sees()
	forked(d.run("journal", "prove", "1"))
	forked(d.run("status"))
	if r := d.run("journal", "verify"); r.Code != 8 || !strings.Contains(r.Err, "was forked") {
		t.Errorf("journal verify: %d, %s", r.Code, r.Err)
	}
	// Control: a client that saw no journal gets no error.
	(&client{g: h}).ok("status")

	d.run("journal", "accept-restore").Want(t, 2, "--yes")
	forked(d.run("status")) // without --yes nothing changed
	shown := d.ok("journal", "accept-restore", "--yes")
	for _, want := range []string{"seen before", "backup", "now", "from a backup of", "lost"} {
		if !strings.Contains(shown, want) {
			t.Errorf("accept-restore does not show %q:\n%s", want, shown)
		}
	}
	d.ok("status")
	d.ok("journal", "verify")
	d.run("journal", "accept-restore", "--yes").Want(t, 0, "nothing to accept")

	// The original gateway still runs. Its journal does not explain the other copy.
	forkedOrOlder := c.run("status")
	if forkedOrOlder.Code != 8 {
		t.Errorf("the other copy: %d, %s", forkedOrOlder.Code, forkedOrOlder.Err)
	}
	c.run("journal", "accept-restore", "--yes").Want(t, 8, "the journal has no event of a restore")
	d.ok("status")
}

// TestTwoCopies: a copied state directory runs twice, and the first client that uses both
// copies detects it.
func TestTwoCopies(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	c.ok("status")
	g.Stop()
	h := newGateway(t)
	must.Do(t, os.CopyFS(h.State, os.DirFS(g.State)))
	must.Do(t, exec.Command("chmod", "-R", "go=", h.State).Run())
	g.Start()
	h.Start()
	d := &client{g: h, home: g.Dir}
	c.ok("call", "echo", "text=one")
	c.sees()
	c.ok("status")
	for range 10 {
		(&client{g: h}).ok("call", "echo", "text=two")
	}
	(&client{g: h}).sees()
	for _, args := range [][]string{{"status"}, {"journal", "prove", "1"}, {"journal", "verify"}} {
		if r := d.run(args...); r.Code != 8 {
			t.Errorf("%v with the other copy: %d\n%s", args, r.Code, r.Err)
		}
	}
	d.run("journal", "accept-restore", "--yes").Want(t, 8, "the journal has no event of a restore")
	c.ok("status")
}
