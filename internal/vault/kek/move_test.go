package kek_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// house is a gateway with two possible backends for its keys.
type house struct {
	t      *testing.T
	dir    string
	memory *kektest.Memory
	// phrase is the passphrase of the configuration.
	phrase func() ([]byte, error)
	book   *book
}

func (h house) options(setting string) kek.Options {
	return kek.Options{
		Dir: h.dir, Gateway: kektest.Gateway, Backend: setting, Passphrase: h.phrase, Journal: h.book,
		Backends: []kek.Backend{h.memory, kek.NewFile(h.dir, kektest.Gateway, h.phrase)},
	}
}

func (h house) open(setting string) *kek.Ring {
	h.t.Helper()
	return must.Get(kek.Open(h.options(setting)))(h.t)
}

// begin returns a gateway whose keys, one of them older, are in a backend.
func begin(t *testing.T, backend string, passphrase func() ([]byte, error)) (h house, backs []func(*kek.Ring) error) {
	h = house{t, t.TempDir(), kektest.NewMemory(), passphrase, &book{}}
	r := h.open(backend)
	_, one := wrapped(t, r, "one")
	must.Get(r.Rotate(t.Context()))(t)
	_, two := wrapped(t, r, "two")
	return h, []func(*kek.Ring) error{one, two}
}

// has reports which backends contain keys.
func (h house) has() (inMemory, inFile bool) {
	_, err := os.Stat(filepath.Join(h.dir, "vault.kek"))
	return len(h.memory.IDs()) > 0, err == nil
}

// After a move, the keys are only in the new backend, which the pin and the journal name.
func TestMove(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"memory": kek.InFile, kek.InFile: "memory"} {
		h, backs := begin(t, from, nil)
		s, err := kek.Move(t.Context(), h.options(from), kek.Target{Backend: to})
		must.Do(t, err)
		if last := h.book.ids[len(h.book.ids)-1]; s.Backend != to || s.Older != 1 || last != to+" "+s.ID {
			t.Errorf("%+v, the journal has %q", s, last)
		}
		if _, err := kek.Open(h.options(from)); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("to %s: the setting of before: %v", to, err)
		}
		for _, back := range backs {
			must.Do(t, back(h.open(to)))
		}
		if m, f := h.has(); m != (to == "memory") || f != (to == kek.InFile) {
			t.Errorf("to %s: in memory %v, in a file %v", to, m, f)
		}
	}
}

// A refused move leaves the keys in their backend.
func TestMoveRefused(t *testing.T) {
	t.Parallel()
	h, backs := begin(t, "memory", nil)
	for name, c := range map[string]struct {
		to     kek.Target
		change func(house)
		want   reason.Code
	}{
		"nowhere":            {to: kek.Target{Backend: "pocket"}, want: reason.InvalidInput},
		"auto":               {to: kek.Target{Backend: kek.Auto}, want: reason.InvalidInput},
		"where it is":        {to: kek.Target{Backend: "memory"}, want: reason.InvalidInput},
		"from the locked":    {to: kek.Target{Backend: kek.InFile}, change: func(h house) { h.memory.Lock() }, want: reason.VaultLocked},
		"a short passphrase": {to: kek.Target{Backend: kek.InFile, Passphrase: phrase("short")}, want: reason.VaultLocked},
	} {
		if c.change != nil {
			c.change(h)
		}
		if _, err := kek.Move(t.Context(), h.options(kek.Auto), c.to); reason.Of(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		h.memory.Unlock()
		for _, back := range backs {
			must.Do(t, back(h.open("memory")))
		}
		if m, f := h.has(); !m || f {
			t.Errorf("%s: in memory %v, in a file %v", name, m, f)
		}
	}
	empty := house{t, t.TempDir(), kektest.NewMemory(), nil, &book{}}
	if _, err := kek.Move(t.Context(), empty.options(kek.Auto), kek.Target{Backend: kek.InFile}); reason.Of(err) != reason.NotFound {
		t.Errorf("keys that nobody made: %v", err)
	}
	if m, f := empty.has(); m || f {
		t.Error("something was made")
	}
}

// A move sets, changes and removes the passphrase of the key file.
func TestMoveToPassphrase(t *testing.T) {
	t.Parallel()
	h, backs := begin(t, kek.InFile, nil)
	for _, step := range []struct{ was, is func() ([]byte, error) }{{nil, phrase("correct horse")}, {phrase("correct horse"), phrase("another horse")}, {phrase("another horse"), nil}} {
		h.phrase = step.was
		must.Get(kek.Move(t.Context(), h.options(kek.Auto), kek.Target{Backend: kek.InFile, Passphrase: step.is}))(t)
		if step.was != nil && step.is != nil {
			is(t, "under the one of before", backs[0](h.open(kek.Auto)), reason.VaultLocked)
		}
		h.phrase = step.is
		for _, back := range backs {
			must.Do(t, back(h.open(kek.Auto)))
		}
	}
	h.phrase = phrase("wrong horse")
	must.Get(kek.Move(t.Context(), h.options(kek.Auto), kek.Target{Backend: kek.InFile, Passphrase: phrase("correct horse")}))(t)
	if _, err := kek.Move(t.Context(), h.options(kek.Auto), kek.Target{Backend: kek.InFile}); reason.Of(err) != reason.VaultLocked {
		t.Errorf("by a wrong passphrase: %v", err)
	}
}

// After a kill at any step, the keys are readable in the pinned backend. The next start leaves
// them in one backend, and the next move completes.
func TestMoveKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"memory": kek.InFile, kek.InFile: "memory"} {
		for n := 0; ; n++ {
			h, backs := begin(t, from, nil)
			step, was := killed(t, n, func(reached func(string)) {
				must.Get(kek.Move(t.Context(), h.options(from).Reached(reached), kek.Target{Backend: to, Passphrase: phraseOnce(n)}))(t)
			})
			if !was {
				if n < 6 {
					t.Errorf("%d steps", n)
				}
				break
			}
			now := from
			if step == "switched" || strings.HasPrefix(step, "deleted") {
				now = to
			}
			h.phrase = phraseOnce(n)
			if now == from {
				h.phrase = nil
			}
			for _, back := range backs {
				if err := back(h.open(now)); err != nil {
					t.Errorf("from %s, ended at %q: %v", from, step, err)
				}
			}
			if m, f := h.has(); m != (now == "memory") || f != (now == kek.InFile) {
				t.Errorf("from %s, ended at %q: in memory %v, in a file %v", from, step, m, f)
			}
			if now == to {
				continue
			}
			must.Get(kek.Move(t.Context(), h.options(kek.Auto), kek.Target{Backend: to}))(t)
			for _, back := range backs {
				must.Do(t, back(h.open(to)))
			}
		}
	}
}

// phraseOnce returns a passphrase in one round only, because deriving a key takes time. The
// keys that a move left under an unavailable passphrase are removed, too.
func phraseOnce(n int) func() ([]byte, error) {
	if n == 2 {
		return phrase("correct horse")
	}
	return nil
}

// TestPartialFilesAreRemoved: the partial files of an interrupted write are removed by the next
// one.
func TestPartialFilesAreRemoved(t *testing.T) {
	t.Parallel()
	h, backs := begin(t, kek.InFile, nil)
	half := filepath.Join(h.dir, ".vault.kek.1234")
	for name, do := range map[string]func(r *kek.Ring) error{
		"rotating": func(r *kek.Ring) error { _, err := r.Rotate(t.Context()); return err },
		"moving": func(*kek.Ring) error {
			_, err := kek.Move(t.Context(), h.options(kek.Auto), kek.Target{Backend: kek.InFile})
			return err
		},
	} {
		must.Do(t, os.WriteFile(half, []byte("keys"), 0o600))
		must.Do(t, do(h.open(kek.Auto)))
		if _, err := os.Stat(half); err == nil {
			t.Errorf("%s leaves it", name)
		}
	}
	for _, back := range backs {
		must.Do(t, back(h.open(kek.Auto)))
	}
}
