//go:build linux

package e2e

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/leaks"
	"palyra/test/process"
)

// TestKeysAreNotDisclosed runs every command that creates, shows, replaces and damages keys. At
// the end of the test, its output and files are searched for keys, as for every gateway of
// these tests (process.Palyrad). The test verifies that the search has keys to look for.
func TestKeysAreNotDisclosed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "[log]", `level = "debug"`)
	c := g.local()
	bob := g.add("bob", "--role", "operator")
	g.add("helper", "--owner", "bob")
	for _, command := range [][]string{
		{"call", "fs.read", "path=a.txt"}, {"call", "fs.read", "path=../../../state/operator/key.pem"}, {"status", "-o", "json"}, {"devices", "list", "-o", "json"}, {"members", "list", "-o", "json"},
		{"tokens", "create", "ci", "--scope", "tool.call", "--out", filepath.Join(g.Dir, "ci")}, {"tokens", "list", "-o", "json"}, {"config", "show"}, {"config", "check"},
		{"attest", "keys", "-o", "json"}, {"attest", "list", "-o", "json"}, {"journal", "prove", "1", "-o", "json"}, {"journal", "list", "--limit", "0", "-o", "json"},
		{"journal", "export", filepath.Join(g.Dir, "one.ndjson")}, {"approvals", "list", "-o", "json"},
	} {
		c.run(command...)
	}
	ci := &client{g: g, credentials: filepath.Join(g.Dir, "ci")}
	ci.ok("call", "fs.read", "path=a.txt")
	ci.run("members", "list", "-v").Want(t, 2)
	g.palyrad("operator", "bundle", "bob", "--revoke-old", "--out", filepath.Join(g.Dir, "bob2"))
	bob.run("status")
	if n := keysOf(t, g); n < 9 {
		// The keys are: root, issuing, notary, journal, the operator's, bob's two, helper's, and the
		// token.
		t.Errorf("there are only %d keys", n)
	}
	g.Stop()
	g.palyrad("keys", "rotate", "journal").Want(t, 0)
	g.palyrad("doctor")
	g.Start()
	c.ok("journal", "verify")
	badKeys(t, g)
	// A crash writes the stacks of all goroutines to the log.
	g.Env = append(g.Env, "GOTRACEBACK=crash")
	g.Start()
	c.ok("call", "fs.read", "path=a.txt")
	g.Signal(syscall.SIGQUIT)
	if g.Wait(t); !strings.Contains(g.Log().String(), "goroutine ") {
		t.Error("the control: there is no dump")
	}
}

// keysOf returns the number of keys in the files of a gateway.
func keysOf(t *testing.T, g *gateway) int {
	t.Helper()
	n, found, err := leaks.Look(g.Dir, nil)
	must.Check(t, err)
	for _, l := range found {
		t.Error(l)
	}
	return n
}

// badKeys makes each key unusable in turn, so that palyrad and palyra report why they reject
// it.
func badKeys(t *testing.T, g *gateway) {
	t.Helper()
	g.Stop()
	for _, name := range []string{"ca/root.pem", "ca/issuing.pem", "ca/notary.pem", "ca/journal.key", "operator/cert.pem"} {
		path := filepath.Join(g.State, name)
		whole := must.Get(os.ReadFile(path))(t)
		for what, text := range map[string][]byte{
			"cut off": whole[:len(whole)/2], "with a wrong byte": slices.Concat(whole[:len(whole)/3], []byte("!"), whole[len(whole)/3+1:]),
		} {
			g.write(path, string(text))
			r := g.palyrad("--log-level", "debug", "keys", "rotate", "journal")
			if name == "operator/cert.pem" {
				r = g.local().run("status")
			}
			if r.Code == 0 {
				t.Errorf("%s %s is taken", name, what)
			}
		}
		g.write(path, string(whole))
		must.Do(t, os.Chmod(path, 0o644))
		if r := g.palyrad("keys", "rotate", "journal"); r.Code == 0 && name != "operator/cert.pem" {
			t.Errorf("%s is taken from where others read it", name)
		}
		must.Do(t, os.Chmod(path, 0o600))
	}
}

// TestDisclosedKeyIsFound is the control: the answer of a gateway whose key was copied to a place
// that an agent reads contains the key. The stored answer is encrypted.
func TestDisclosedKeyIsFound(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	block, _ := pem.Decode(must.Get(os.ReadFile(filepath.Join(g.bundle(), "key.pem")))(t))
	key, ok := must.Get(x509.ParsePKCS8PrivateKey(block.Bytes))(t).(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("the operator's key is of another kind")
	}
	secret := must.Get(key.Bytes())(t)
	for form, text := range map[string]string{"hex": hex.EncodeToString(secret), "PEM": string(pem.EncodeToMemory(&pem.Block{Type: "DATA", Bytes: block.Bytes}))} {
		path := g.file("told.txt", text)
		r := process.Finish(t, g.local().command("call", "fs.read", "path=told.txt", "-o", "json"))
		r.Want(t, 0)
		must.Do(t, os.Remove(path))
		_, found, err := leaks.Look(g.Dir, map[string]string{"the answer": r.Out})
		must.Do(t, err)
		in := func(place string) bool {
			return slices.ContainsFunc(found, func(l leaks.Leak) bool { return strings.HasPrefix(l.Place, place) })
		}
		if !in("the answer") || in(g.State) {
			t.Errorf("%s: found %v", form, found)
		}
	}
	// The key was disclosed on purpose, so the search at the end of the test must not find it.
	g.Stop()
	must.Do(t, os.RemoveAll(g.State))
}

// TestGatewaysDoNotDiscloseKeysOfEachOther: the credential of one gateway is not valid at another,
// and neither discloses a key of the other.
func TestGatewaysDoNotDiscloseKeysOfEachOther(t *testing.T) {
	t.Parallel()
	one, other := startGateway(t), startGateway(t)
	for from, to := range map[*gateway]*gateway{one: other, other: one} {
		to.Beside(from.Palyrad)
		r := process.Finish(t, from.local().command("--address", to.address(), "status"))
		if r.Code == 0 {
			t.Errorf("a credential of another gateway is taken: %s", r.Out)
		}
		to.Note(r)
		from.Note(r)
		to.local().ok("journal", "verify")
	}
}
