package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// passphrase is a secret that the person has and that none of their programs has.
const passphrase = "correct horse"

// TestPresence: a program that runs as the person cannot answer an approval for which policy
// requires presence. An approved call could have left such a program behind. Control:
// TestAgentApprovesItself, where policy requires no presence.
func TestPresence(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	p.types(passphrase+"\n"+passphrase+"\n", "key", "presence", "--passphrase").Want(t, 0)
	for _, a := range all {
		// The holder of the passphrase can answer the approval.
		line, made := p.mark("presentyes" + a.name)
		p.model.wants(a.shell(line))
		c := a.start(p, true)
		q := p.waiting(c)
		p.types(passphrase+"\n", "approve", q.ID, "--digest", q.Digest, "--present", "--yes").Want(t, 0)
		r := c.Wait(t)
		table.want(t, "presence: the person approves, and is there", a, happened(made()), ran, r.Out+r.Err+p.model.results())

		line, made = p.mark("presentself" + a.name)
		p.model.wants(a.shell(line))
		c = a.start(p, true)
		q = p.waiting(c)
		p.credentialAttacks(q)
		r = c.Wait(t)
		table.want(t, "presence: a program of the same user approves", a, happened(made()), blocked, r.Out+r.Err+p.model.results())
	}
}

// credentialAttacks tries the ways in which a program of the person reads, copies and uses
// every credential that the person has on the machine. The program does not have the
// passphrase.
func (p *person) credentialAttacks(q ask) {
	p.t.Helper()
	answer := []string{"approve", q.ID, "--digest", q.Digest}
	p.palyra(answer...)
	p.palyra(append([]string{"--socket"}, answer...)...)
	p.palyra(append(answer, "--present", "--yes")...)

	copied := filepath.Join(p.t.TempDir(), "copied")
	must.Do(p.t, os.Mkdir(copied, 0o700))
	bundle := filepath.Join(p.home, ".local/state/palyra/operator")
	for _, f := range must.Get(os.ReadDir(bundle))(p.t) {
		must.Do(p.t, os.WriteFile(filepath.Join(copied, f.Name()), must.Get(os.ReadFile(filepath.Join(bundle, f.Name())))(p.t), 0o600))
	}
	with := func(args ...string) []string { return append([]string{"--credentials", copied}, args...) }
	proven := with("approve", q.ID, "--digest", q.Digest, "--present", "--yes")
	p.types("wrong horse\n", proven...).Want(p.t, 3, "PRESENCE_NOT_PROVEN")
	// The program replaces the person's key with its own.
	must.Do(p.t, os.Remove(filepath.Join(copied, "presence.kept")))
	p.types("mine is mine\nmine is mine\n", with("key", "presence", "--passphrase")...).Want(p.t, 3)
	p.types("mine is mine\n", proven...)
}

// TestPresenceUnderOneUser has such a program use the rights of palyrad's user on the gateway's
// host: it removes the presence key and confirms another. A palyrad with its own uid closes
// this gap. The change is in the journal, and the person is notified.
func TestPresenceUnderOneUser(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	p.types(passphrase+"\n"+passphrase+"\n", "key", "presence", "--passphrase").Want(t, 0)
	for _, a := range all {
		line, made := p.mark("presenthost" + a.name)
		p.model.wants(a.shell(line))
		c := a.start(p, true)
		q := p.waiting(c)
		device := p.device()
		p.program("palyrad", "presence", "reset", device).Want(t, 0)
		p.types("mine is mine\nmine is mine\n", "key", "presence", "--passphrase").Want(t, 0)
		p.program("palyrad", "presence", "confirm", device).Want(t, 0)
		p.types("mine is mine\n", "approve", q.ID, "--digest", q.Digest, "--present", "--yes").Want(t, 0)
		r := c.Wait(t)
		table.want(t, "presence: a program of palyrad's own user resets the key", a, happened(made()), ran, r.Out+r.Err+p.model.results())
		if r := p.palyra("journal", "list", "-o", "json", "--limit", "0"); !strings.Contains(r.Out, "PAL-I161") || !strings.Contains(r.Out, "PAL-I162") {
			t.Errorf("%s: it is not on record that the presence key was taken away and another confirmed: %s", a.name, r.Err)
		}
		if r := p.palyra("status"); !strings.Contains(r.Out, " got a presence key at ") {
			t.Errorf("%s: palyra status does not say it:\n%s", a.name, r.Out)
		}
	}
}

// device returns the device id of the local operator.
func (p *person) device() string {
	p.t.Helper()
	r := p.palyra("status", "-o", "json")
	var status struct {
		Caller struct {
			Device string `json:"device_id"`
		} `json:"caller"`
	}
	must.Do(p.t, json.Unmarshal([]byte(r.Out), &status))
	return status.Caller.Device
}
