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

// step is a system call at which a process is killed: the n-th of these calls by one thread
// that touches a path.
type step struct {
	calls, path string
	n           int
}

func (s step) String() string {
	return fmt.Sprintf("%s number %d of %s", s.calls, s.n, filepath.Base(s.path))
}

// kill returns a command prefix that runs a command up to the step and then kills it.
func (s step) kill() []string { return traced(s.calls, s.signal(), s.path) }

func (s step) signal() string { return fmt.Sprintf("signal=SIGKILL:when=%d", s.n) }

// rotationSteps returns all durable steps of a key rotation, in order: the journal events, each
// file replacement, and the sync of the directory.
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

// TestKeyRotationKilled kills `palyrad keys rotate`, and a running palyrad that rotates a key,
// at each durable step. Afterwards the key is completely the old or the new one. palyrad
// starts, earlier signatures verify, devices keep working, the journal names each replaced key,
// and the next rotation completes.
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
				// strace counts per thread, and the work moves between threads, so only a first call is
				// reached reliably.
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

// wholeAfter checks a stopped gateway, and leaves it stopped.
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

// envelope writes the attestation of a call to a file and returns its path.
func (d *daemon) envelope(of reply, name string) string {
	d.T.Helper()
	path := filepath.Join(d.Dir, name)
	must.Write(d.T, path, d.run("palyra", "attest", "show", of.attestation, "-o", "json"))
	return path
}

// run is program, and fails the test unless the command succeeds.
func (d *daemon) run(name string, args ...string) string {
	d.T.Helper()
	code, out, msg := d.program(name, args...)
	if code != 0 {
		d.T.Fatalf("%s %v exits %d\n%s%s", name, args, code, out, msg)
	}
	return out
}

// gatewayKeys returns the digests of the gateway's own keys, by name.
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

// replacedKeys returns the digests of the keys that, according to the journal, were or would be
// replaced. palyrad MUST NOT run.
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
