package kek_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// is fails the test unless an error has the reason and contains the texts.
func is(t *testing.T, what string, err error, want reason.Code, says ...string) {
	t.Helper()
	if reason.Of(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
		return
	}
	for _, text := range says {
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", what, err, text)
		}
	}
}

// wrapped wraps a key and returns a function that unwraps and compares it.
func wrapped(t *testing.T, r *kek.Ring, about string) (id string, back func(*kek.Ring) error) {
	t.Helper()
	key := []byte("the key of " + about)
	id, box, err := r.Wrap(t.Context(), about, key)
	must.Do(t, err)
	return id, func(r *kek.Ring) error {
		got, err := r.Unwrap(t.Context(), about, id, box)
		if err == nil && !bytes.Equal(got, key) {
			return errors.New("another key came back")
		}
		return err
	}
}

// A box opens only under the same name and id.
func TestWrap(t *testing.T) {
	t.Parallel()
	r, _ := kektest.New(t)
	ctx, key := t.Context(), []byte("a key of thirty-two bytes, really")
	id, box, err := r.Wrap(ctx, "vault://global/a\x001", key)
	must.Do(t, err)
	other := must.Get(r.Rotate(ctx))(t)
	if bytes.Contains(box, key[:8]) || id == other {
		t.Error("the box shows the key, or the id stayed")
	}
	if len(box) != 24+len(key)+16 {
		t.Errorf("the box has %d bytes", len(box))
	}
	flip := func(at int) []byte {
		b := bytes.Clone(box)
		b[at] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		about, id string
		box       []byte
		want      reason.Code
	}{
		"the control":          {want: ""},
		"another about":        {about: "vault://global/b\x001", want: reason.SecretUnreadable},
		"no about":             {about: " ", want: reason.SecretUnreadable},
		"another key's id":     {id: other, want: reason.SecretUnreadable},
		"an id of nobody":      {id: "kek_0000000000000000", want: reason.VaultKeyMissing},
		"the nonce changed":    {box: flip(0), want: reason.SecretUnreadable},
		"the key changed":      {box: flip(30), want: reason.SecretUnreadable},
		"the tag changed":      {box: flip(len(box) - 1), want: reason.SecretUnreadable},
		"cut off":              {box: box[:len(box)-1], want: reason.SecretUnreadable},
		"shorter than its tag": {box: box[:30], want: reason.SecretUnreadable},
		"nearly nothing":       {box: box[:10], want: reason.SecretUnreadable},
	} {
		if c.about == "" {
			c.about = "vault://global/a\x001"
		}
		if c.id == "" {
			c.id = id
		}
		if c.box == nil {
			c.box = box
		}
		got, err := r.Unwrap(ctx, c.about, c.id, c.box)
		if reason.Of(err) != c.want || bytes.Equal(got, key) != (c.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	_, again, err := r.Wrap(ctx, "vault://global/a\x001", key)
	if err != nil || bytes.Equal(again[:24], box[:24]) {
		t.Errorf("a nonce came twice, %v", err)
	}
}

// A gateway's keys survive restarts, older keys until they are dropped. Dropped keys are
// deleted from their backend.
func TestRotateAndDrop(t *testing.T) {
	t.Parallel()
	m, dir := kektest.NewMemory(), t.TempDir()
	open := func() *kek.Ring {
		return must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}))(t)
	}
	ctx, r := t.Context(), open()
	first, readFirst := wrapped(t, r, "one")
	second := must.Get(r.Rotate(ctx))(t)
	of, readSecond := wrapped(t, r, "two")
	if of != second || must.Get(r.Current(ctx))(t) != second || first == second {
		t.Errorf("first %s, second %s, wrapped by %s", first, second, of)
	}
	r = open()
	must.Do(t, readFirst(r))
	must.Do(t, readSecond(r))
	is(t, "dropping the current", r.Drop(ctx, second), reason.InvalidInput)
	if s := r.Status(ctx); s.Older != 1 || s.ID != second || s.Locked {
		t.Errorf("%+v", s)
	}
	for range 2 {
		must.Do(t, r.Drop(ctx, first))
	}
	if ids := m.IDs(); !slices.Equal(ids, []string{second}) {
		t.Errorf("the backend has %q", ids)
	}
	for _, r := range []*kek.Ring{r, open()} {
		is(t, "a dropped key", readFirst(r), reason.VaultKeyMissing, first)
		must.Do(t, readSecond(r))
	}
}

// A dropped key that cannot be deleted now is not used any more, and is deleted at a later
// start.
func TestDropWhileLocked(t *testing.T) {
	t.Parallel()
	m, dir := &refusing{Memory: kektest.NewMemory()}, t.TempDir()
	open := func() *kek.Ring {
		return must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}))(t)
	}
	r := open()
	first, readFirst := wrapped(t, r, "one")
	second := must.Get(r.Rotate(t.Context()))(t)
	m.deletes = true
	is(t, "dropping", r.Drop(t.Context(), first), reason.VaultLocked)
	is(t, "a dropped key", readFirst(r), reason.VaultKeyMissing)
	if s := r.Status(t.Context()); s.Leftover != 1 || len(m.IDs()) != 2 {
		t.Errorf("%+v, %q", s, m.IDs())
	}
	m.deletes = false
	if s := open().Status(t.Context()); s.Leftover != 0 || !slices.Equal(m.IDs(), []string{second}) {
		t.Errorf("%+v, %q", s, m.IDs())
	}
}

// refusing is a backend whose deletions fail for a while.
type refusing struct {
	*kektest.Memory
	deletes bool
}

func (r *refusing) Delete(ctx context.Context, id string) error {
	if r.deletes {
		return errors.New("not now")
	}
	return r.Memory.Delete(ctx, id)
}

// A locked backend locks the vault once the cached keys expire. After an unlock, the next call
// succeeds. The backend is queried at most once a second.
func TestLockedLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := kektest.NewMemory()
		r := must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}))(t)
		_, back := wrapped(t, r, "one")
		m.Lock()
		must.Do(t, back(r)) // control: a key is cached for its time
		time.Sleep(kek.HoldTime)
		is(t, "locked", back(r), reason.VaultLocked, "is locked")
		began := time.Now()
		asked := m.Asked()
		for range 10 {
			is(t, "still locked", back(r), reason.VaultLocked)
		}
		s := r.Status(t.Context())
		if m.Asked() != asked {
			t.Errorf("it was asked %d times within a second", m.Asked()-asked)
		}
		if !s.Locked || s.String() != "memory, locked: the keyring of the test is locked" || s.Remedy == "" || !s.Since.Equal(began) {
			t.Errorf("%+v: %s", s, s)
		}
		m.Unlock()
		is(t, "within the same second", back(r), reason.VaultLocked)
		time.Sleep(kek.RetryTime)
		must.Do(t, back(r))
		if s := r.Status(t.Context()); s.Locked || s.String() != "memory" || !s.Since.Equal(time.Now()) {
			t.Errorf("%+v", s)
		}
	})
}

// TestCallerCancels: a caller that cancels does not affect the state of the backend, and does not
// delay others.
func TestCallerCancels(t *testing.T) {
	t.Parallel()
	m := &slow{Memory: kektest.NewMemory(), entered: make(chan struct{}), goOn: make(chan struct{})}
	r := must.Get(kek.Open(kek.Options{Dir: t.TempDir(), Gateway: kektest.Gateway, Backend: "memory", Backends: []kek.Backend{m}}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := r.Current(ctx)
		first <- err
	}()
	<-m.entered
	other, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.Current(other); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits and leaves: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who asks and leaves: %v", err)
	}
	close(m.goOn)
	must.Get(r.Current(t.Context()))(t) // at once: the cancelled call changed no state
}

// slow is a backend that answers when the test permits it.
type slow struct {
	*kektest.Memory
	entered, goOn chan struct{}
}

func (s *slow) Put(ctx context.Context, id string, key []byte) error {
	select {
	case s.entered <- struct{}{}:
	case <-s.goOn:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.goOn:
		return s.Memory.Put(ctx, id, key)
	}
}

// A key that is missing in its backend, or differs there, is reported, and no other key
// replaces it.
func TestLostKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct {
		change func(keys map[string][]byte)
		want   reason.Code
		says   string
	}{
		"the control":           {func(map[string][]byte) {}, "", ""},
		"gone":                  {func(keys map[string][]byte) { clear(keys) }, reason.VaultKeyMissing, "is missing"},
		"is not the pinned one": {func(keys map[string][]byte) { each(keys, func(k []byte) { k[0] ^= 1 }) }, reason.SecretUnreadable, "is not the pinned one"},
		"half of it":            {func(keys map[string][]byte) { halve(keys) }, reason.SecretUnreadable, "is not the pinned one"},
		"ids exchanged":         {exchange, reason.SecretUnreadable, "is not the pinned one"},
	} {
		m, dir := kektest.NewMemory(), t.TempDir()
		o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}
		r := must.Get(kek.Open(o))(t)
		_, back := wrapped(t, r, "one")
		must.Get(r.Rotate(ctx))(t)
		pin := must.Get(os.ReadFile(filepath.Join(dir, "vault.json")))(t)
		m.Change(c.change)
		before := len(m.IDs())
		r = must.Get(kek.Open(o))(t)
		is(t, name, back(r), c.want, c.says)
		_, _, err := r.Wrap(ctx, "x", []byte("k"))
		is(t, name+": wrapping", err, c.want)
		if c.want == "" {
			continue
		}
		if _, err := r.Rotate(ctx); reason.Of(err) != c.want {
			t.Errorf("%s: rotating: %v", name, err)
		}
		if !bytes.Equal(pin, must.Get(os.ReadFile(filepath.Join(dir, "vault.json")))(t)) || len(m.IDs()) != before {
			t.Errorf("%s: something was made or changed", name)
		}
	}
}

func each(keys map[string][]byte, do func([]byte)) {
	for _, k := range keys {
		do(k)
	}
}

func halve(keys map[string][]byte) {
	for id, k := range keys {
		keys[id] = k[:16]
	}
}

func exchange(keys map[string][]byte) {
	var ids []string
	for id := range keys {
		ids = append(ids, id)
	}
	keys[ids[0]], keys[ids[1]] = keys[ids[1]], keys[ids[0]]
}
