package kek_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"palyra/internal/core/must"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// A box has the format of docs/format/vault.md, and is bound to the id and the associated text.
func TestBoxFormat(t *testing.T) {
	t.Parallel()
	r, m := kektest.New(t)
	id, box, err := r.Wrap(t.Context(), "about", []byte("the key"))
	must.Do(t, err)
	key := must.Get(m.Get(t.Context(), id))(t)
	aead := must.Get(chacha20poly1305.NewX(key))(t)
	for associated, want := range map[string]bool{
		"palyra kek v1\x00" + id + "\x00about": true,
		"palyra kek v1\x00\x00about":           false,
		"palyra kek v1\x00" + id + "\x00":      false,
		"":                                     false,
	} {
		got, err := aead.Open(nil, box[:24], box[24:], []byte(associated))
		if (err == nil) != want || want && !bytes.Equal(got, []byte("the key")) {
			t.Errorf("%q: %q, %v", associated, got, err)
		}
	}
}

// otherProcess names the variable with the state directory of a test's child process.
const otherProcess = "TEST_PALYRA_KEK_DIR"

// Two consecutive processes have the same keys. A process that stays open while another rotates
// can read keys that the other wrapped.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(otherProcess); dir != "" {
		r := must.Get(kek.Open(inFile(dir, nil)))(t)
		must.Get(r.Rotate(t.Context()))(t)
		id, box, err := r.Wrap(t.Context(), "about", []byte("of the other"))
		must.Do(t, err)
		must.Do(t, os.WriteFile(dir+"/box", append([]byte(id+"\n"), box...), 0o600))
		return
	}
	c, dir := &clock{time.Now()}, t.TempDir()
	o := inFile(dir, nil)
	o.Now = c.now
	r := must.Get(kek.Open(o))(t)
	_, back := wrapped(t, r, "one")
	child := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestTwoProcesses$")
	child.Env = append(os.Environ(), otherProcess+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	id, box, _ := strings.Cut(string(must.Get(os.ReadFile(dir+"/box"))(t)), "\n")
	c.pass(kek.RetryTime)
	next := must.Get(r.Rotate(t.Context()))(t) // starts with the keys that the other process left
	if got, err := r.Unwrap(t.Context(), "about", id, []byte(box)); err != nil || string(got) != "of the other" {
		t.Errorf("%q, %v", got, err)
	}
	must.Do(t, back(r))
	if now := must.Get(r.Current(t.Context()))(t); now != next {
		t.Errorf("%s is current, want %s", now, next)
	}
}
