//go:build linux

package fault

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/test/process"
)

// step is a system call at which a process is killed: the n-th of these calls, of one
// thread, that touches a path.
type step struct {
	calls, path string
	n           int
}

func (s step) String() string {
	return fmt.Sprintf("%s number %d of %s", s.calls, s.n, filepath.Base(s.path))
}

// kill is the command that runs another one up to the step.
func (s step) kill() []string { return traced(s.calls, s.signal(), s.path) }

func (s step) signal() string { return fmt.Sprintf("signal=SIGKILL:when=%d", s.n) }

// rotationSteps are all that a rotation of a key does durably, in turn: what it journals,
// each file that it puts in the place of another, and that it makes this last.
func (d *daemon) rotationSteps(key string) (list []step) {
	ca := filepath.Join(d.State, "ca")
	files := map[string][]string{
		"issuing": {"issuing.pem"}, "notary": {"notary-past.json", "notary.pem"}, "journal": {"journal-next.json", "journal-keys.json", "journal-past", "journal.key"},
	}[key]
	for n := range 2 {
		list = append(list, step{"fsync", d.store() + "-wal", n + 1})
	}
	for n, name := range files {
		list = append(list, step{"renameat", filepath.Join(ca, name), 1}, step{"fsync", ca, n + 1})
	}
	if key == "journal" {
		list = append(list, step{"unlinkat", filepath.Join(ca, "journal-next.json"), 1}, step{"fsync", d.store() + "-wal", 3})
	}
	return list
}

// TestKeyRotationKilled kills `palyrad keys rotate`, and a palyrad that does the same while
// it runs, at each thing that they do durably. What is left is the old key or the new one,
// whole: palyrad starts, whatever was signed before verifies, devices go on, the journal
// tells of each key that was replaced, and the next rotation comes to its end.
func TestKeyRotationKilled(t *testing.T) {
	t.Parallel()
	canTrace(t)
	for _, key := range []string{"issuing", "notary", "journal"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			first := d.dial().patch(t.Context(), "first")
			succeeded(t, first)
			signed := d.envelope(first, "first.json")
			d.run("palyrad", "operator", "add", "bob", "--role", "operator", "--yes", "--out", filepath.Join(d.Dir, "bob"))
			d.Stop()
			kills := 0
			for n, s := range d.rotationSteps(key) {
				before, killed := d.gatewayKeys(), false
				// strace counts by thread, and the work moves between threads: only a first call
				// is met for certain.
				for tries := 0; !killed && tries < 4; tries++ {
					before = d.gatewayKeys()
					killed = d.wrapped(s.kill(), "palyrad", "keys", "rotate", key).Code != 0
				}
				if !killed && s.n == 1 {
					t.Errorf("nothing is killed at %s", s)
				}
				if killed {
					kills++
					d.wholeAfter(fmt.Sprintf("a kill at %s", s), key, before, n, signed)
				}
				if s.calls != "renameat" {
					continue
				}
				d.Start()
				before = d.gatewayKeys()
				heal := d.inject(s.calls, s.signal(), s.path)
				if code, _, _ := d.program("palyrad", "keys", "rotate", key); code == 0 {
					t.Errorf("while palyrad runs, nothing is killed at %s", s)
				}
				d.Wait(t)
				heal()
				kills++
				d.wholeAfter(fmt.Sprintf("a kill of a running palyrad at %s", s), key, before, n+100, signed)
			}
			t.Logf("%d kills", kills)
		})
	}
}

// wholeAfter checks a gateway that does not run, and leaves it so.
func (d *daemon) wholeAfter(what, key string, before map[string]string, n int, signed string) {
	d.T.Helper()
	d.Launch()
	if !d.AwaitReady() {
		d.T.Fatalf("after %s palyrad does not start:\n%s", what, d.Log())
	}
	after := d.gatewayKeys()
	if left := must.Get(filepath.Glob(filepath.Join(d.State, "ca", ".*")))(d.T); len(left) > 0 {
		d.T.Errorf("after %s and a start there is %q", what, left)
	}
	made := d.dial().patch(d.T.Context(), fmt.Sprintf("after-%s-%d", key, n))
	succeeded(d.T, made)
	for _, args := range [][]string{
		{"attest", "verify", signed}, {"attest", "verify", d.envelope(made, "made.json")}, {"journal", "verify"},
		{"--credentials", filepath.Join(d.Dir, "bob"), "--address", d.Log().Await(process.ReadyLine, d.Ended)[1], "status"},
	} {
		if code, out, msg := d.cli(args...); code != 0 {
			d.T.Errorf("after %s palyra %v exits %d\n%s%s", what, args, code, out, msg)
		}
	}
	d.Stop()
	told := d.replacedKeys()
	for name, digest := range before {
		if after[name] == digest {
			continue
		}
		if name != key || !slices.Contains(told, digest) {
			d.T.Errorf("after %s the key %s is another, and the journal tells of %q", what, name, told)
		}
	}
	d.run("palyrad", "keys", "rotate", key)
	if now := d.gatewayKeys(); now[key] == after[key] {
		d.T.Errorf("after %s the key %s cannot be replaced", what, key)
	}
	left := must.Get(filepath.Glob(filepath.Join(d.State, "ca", "journal-next.json")))(d.T)
	if len(left) > 0 {
		d.T.Errorf("after %s and a rotation there is %q", what, left)
	}
}

// envelope writes the attestation of a call into a file, whose path it returns.
func (d *daemon) envelope(of reply, name string) string {
	d.T.Helper()
	path := filepath.Join(d.Dir, name)
	write(d.T, path, d.run("palyra", "attest", "show", of.attestation, "-o", "json"))
	return path
}

// run is program for what has to succeed.
func (d *daemon) run(name string, args ...string) string {
	d.T.Helper()
	code, out, msg := d.program(name, args...)
	if code != 0 {
		d.T.Fatalf("%s %v exits %d\n%s%s", name, args, code, out, msg)
	}
	return out
}

// gatewayKeys are the digests of the gateway's own keys, by name.
func (d *daemon) gatewayKeys() map[string]string {
	d.T.Helper()
	keys := map[string]string{}
	for line := range strings.Lines(d.run("palyrad", "keys", "list")) {
		if words := strings.Fields(line); strings.HasPrefix(words[len(words)-1], "sha256:") {
			keys[words[0]] = words[len(words)-1]
		}
	}
	if len(keys) != 4 {
		d.T.Fatalf("palyrad keys list names %v", keys)
	}
	return keys
}

// replacedKeys are the digests of the keys that the journal says were replaced, or were
// to be. palyrad does not run.
func (d *daemon) replacedKeys() (list []string) {
	d.T.Helper()
	db := must.Get(sqlite.OpenReadOnly(d.T.Context(), d.store()))(d.T)
	defer func() { must.Check(d.T, db.Close(d.T.Context())) }()
	must.Check(d.T, db.Scan(d.T.Context(), 0, db.Head().Seq, func(e *journal.Event) error {
		if e.Code != event.GatewayKeyReplaced {
			return nil
		}
		var p struct {
			Was string `json:"was_sha256"`
		}
		err := json.Unmarshal(e.Payload, &p)
		list = append(list, p.Was)
		return err
	}))
	return list
}
