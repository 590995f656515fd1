package kek_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// killed runs do and ends it at the n-th step that it reaches; false means that it has fewer
// steps.
func killed(t *testing.T, n int, do func(reached func(string))) (step string, was bool) {
	t.Helper()
	type kill struct{}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(kill); !ours {
				panic(r)
			}
			was = true
		}
	}()
	do(func(s string) {
		if step = s; n == 0 {
			panic(kill{})
		}
		n--
	})
	return step, false
}

// places returns the backends in which a change is interrupted.
func places(t *testing.T) map[string]func(dir string) []kek.Backend {
	t.Helper()
	m := kektest.NewMemory()
	return map[string]func(dir string) []kek.Backend{
		"file":   func(dir string) []kek.Backend { return []kek.Backend{kek.NewFile(dir, kektest.Gateway, nil)} },
		"memory": func(string) []kek.Backend { return []kek.Backend{m} },
	}
}

// After a kill at any step of the first start, the next start creates the missing keys or uses
// the existing ones.
func TestFirstStartKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, backends := range places(t) {
		for n := 0; ; n++ {
			dir := t.TempDir()
			o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: backends(dir)}
			step, was := killed(t, n, func(reached func(string)) {
				r := must.Get(kek.Open(o.Reached(reached)))(t)
				must.Get(r.Current(t.Context()))(t)
			})
			if !was {
				if n < 2 {
					t.Errorf("%s: %d steps", name, n)
				}
				break
			}
			o.Backends = backends(dir)
			_, back := wrapped(t, must.Get(kek.Open(o))(t), "one")
			if err := back(must.Get(kek.Open(o))(t)); err != nil {
				t.Errorf("%s, ended at %q: %v", name, step, err)
			}
		}
	}
}

// After a kill at any step of a rotation or a drop, wrapped keys can be opened and new keys
// wrapped. After the next start, no unused key remains.
func TestRotateAndDropKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, backends := range places(t) {
		for n := 0; ; n++ {
			dir := t.TempDir()
			o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto}
			open := func(reached func(string)) *kek.Ring {
				o.Backends = backends(dir)
				return must.Get(kek.Open(o.Reached(reached)))(t)
			}
			quiet := func(string) {}
			first, one := wrapped(t, open(quiet), "one")
			var second string
			step, was := killed(t, n, func(reached func(string)) {
				r := open(reached)
				second = must.Get(r.Rotate(t.Context()))(t)
				must.Do(t, r.Drop(t.Context(), first))
			})
			if !was {
				if n < 5 || second == "" {
					t.Errorf("%s: %d steps", name, n)
				}
				break
			}
			r := open(quiet)
			dropped := slices.Contains([]string{"unpinned", "deleted " + first}, step)
			if err := one(r); (err != nil) != dropped {
				t.Errorf("%s, ended at %q: %v", name, step, err)
			}
			now, two := wrapped(t, r, "two")
			must.Do(t, two(open(quiet)))
			s := r.Status(t.Context())
			if s.Leftover != 0 || s.ID != now || s.Older != map[bool]int{true: 1}[step == "pinned"] {
				t.Errorf("%s, ended at %q: %+v", name, step, s)
			}
			if name == "file" {
				text := string(must.Get(os.ReadFile(filepath.Join(dir, "vault.kek")))(t))
				if got := strings.Count(text, `"id"`); got != 1+s.Older {
					t.Errorf("ended at %q: the file has %d keys, %d count", step, got, 1+s.Older)
				}
			}
		}
	}
}
