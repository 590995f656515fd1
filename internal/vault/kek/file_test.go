package kek_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// phrase returns a passphrase function, as of a configuration.
func phrase(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

// xor is a reversible protection without secrets.
func xor(text, about []byte) ([]byte, error) {
	if len(text) == 0 {
		return nil, errors.New("there is nothing")
	}
	out := bytes.Clone(text)
	for i := range out {
		out[i] ^= about[i%len(about)]
	}
	return out, nil
}

func TestBackends(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(dir, gateway string) kek.Backend{
		"file":            func(dir, gateway string) kek.Backend { return kek.NewFile(dir, gateway, nil) },
		"with passphrase": func(dir, gateway string) kek.Backend { return kek.NewFile(dir, gateway, phrase("correct horse")) },
		"dpapi":           func(dir, gateway string) kek.Backend { return kek.NewProtected(dir, gateway, kek.Protection(xor, xor)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			kektest.RunBackend(t, func() kek.Backend { return open(dir, "one") }, func() kek.Backend { return open(dir, "another") })
			if left := must.Get(os.ReadDir(dir))(t); len(left) != 0 {
				t.Errorf("%d files are left when no key is", len(left))
			}
		})
	}
	t.Run("memory", func(t *testing.T) {
		m := kektest.NewMemory()
		kektest.RunBackend(t, func() kek.Backend { return m }, nil)
	})
}

// inFile returns options for a gateway's keys in a file of a directory.
func inFile(dir string, passphrase func() ([]byte, error)) kek.Options {
	return kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.InFile, Passphrase: passphrase}
}

// A passphrase-protected key is nowhere else in the state directory, and opens only with the
// passphrase. A passphrase passed to Unlock is valid until palyrad stops.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	r := must.Get(kek.Open(inFile(dir, phrase("correct horse"))))(t)
	_, back := wrapped(t, r, "one")
	must.Get(r.Rotate(ctx))(t)
	var f struct {
		Keys   any `json:"keys"`
		Sealed any `json:"sealed"`
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, "vault.kek")))(t), &f))
	if f.Keys != nil || f.Sealed == nil {
		t.Error("the keys lie open")
	}
	unreadable := func() ([]byte, error) {
		return nil, reason.Errorf(reason.ConfigInvalid, "the passphrase file is not there").WithRemedy("Make it.")
	}
	for name, c := range map[string]struct {
		phrase func() ([]byte, error)
		says   string
	}{
		"none":        {nil, "was not entered"},
		"nil":         {func() ([]byte, error) { return nil, nil }, "was not entered"},
		"another one": {phrase("wrong horse"), "the passphrase is wrong"},
		"unreadable":  {unreadable, "is not there"},
	} {
		r := must.Get(kek.Open(inFile(dir, c.phrase)))(t)
		is(t, name, back(r), reason.VaultLocked, c.says)
		is(t, name+": unlocking with another", r.Unlock(ctx, []byte("wrong horse")), reason.VaultLocked, "the passphrase is wrong")
		is(t, name+": still", back(r), reason.VaultLocked)
		must.Do(t, r.Unlock(ctx, []byte("correct horse")))
		must.Do(t, back(r))
		if name != "none" {
			continue
		}
		// A key that is written meanwhile is under the same passphrase.
		must.Get(r.Rotate(ctx))(t)
		must.Do(t, back(must.Get(kek.Open(inFile(dir, phrase("correct horse"))))(t)))
	}
	open := t.TempDir()
	r = must.Get(kek.Open(inFile(open, nil)))(t)
	is(t, "before the first key", r.Unlock(ctx, []byte("correct horse")), reason.InvalidInput)
	_, back = wrapped(t, r, "one")
	is(t, "a file without one", r.Unlock(ctx, []byte("correct horse")), reason.InvalidInput, "has no passphrase")
	must.Do(t, back(r))
	// A passphrase that is configured later changes no existing file.
	must.Do(t, back(must.Get(kek.Open(inFile(open, phrase("correct horse"))))(t)))
	memory, _ := kektest.New(t)
	must.Get(memory.Current(ctx))(t)
	is(t, "a backend without", memory.Unlock(ctx, []byte("correct horse")), reason.InvalidInput, "memory")
}

// A changed passphrase file does not change the passphrase of the keys at the next write.
func TestPassphraseChangesByNoWrite(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	now := "correct horse"
	r := must.Get(kek.Open(inFile(dir, func() ([]byte, error) { return []byte(now), nil })))(t)
	_, back := wrapped(t, r, "one")
	now = "another horse"
	_, err := r.Rotate(ctx)
	is(t, "rotating", err, reason.VaultLocked, "the passphrase is wrong")
	must.Do(t, back(must.Get(kek.Open(inFile(dir, phrase("correct horse"))))(t)))
}

// A damaged, foreign or missing file, or one with too open permissions, is refused with the
// reason, and is not changed.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	edit := func(name, old, text string) func(string) error {
		return func(dir string) error {
			was, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Contains(was, []byte(old)) {
				return errors.Join(err, errors.New("nothing to replace"))
			}
			return os.WriteFile(filepath.Join(dir, name), bytes.Replace(was, []byte(old), []byte(text), 1), 0o600)
		}
	}
	chmod := func(name string, mode os.FileMode) func(string) error {
		return func(dir string) error {
			if runtime.GOOS == "windows" {
				return errSkip
			}
			return os.Chmod(filepath.Join(dir, name), mode)
		}
	}
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	link := func(name string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			return errors.Join(os.Rename(path, path+".elsewhere"), os.Symlink(path+".elsewhere", path))
		}
	}
	give := func(name string) func(string) error {
		return func(dir string) error {
			if os.Geteuid() != 0 {
				return errSkip
			}
			return os.Chown(filepath.Join(dir, name), 12345, -1)
		}
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		want   reason.Code
		says   string
	}{
		"the control":             {func(string) error { return nil }, "", ""},
		"key: no JSON":            {write("vault.kek", "x"), reason.SecretUnreadable, "is not in palyrad's format"},
		"key: empty":              {write("vault.kek", ""), reason.SecretUnreadable, "is not in palyrad's format"},
		"key: another format":     {edit("vault.kek", "vault.kek v1", "vault.kek v2"), reason.SecretUnreadable, "is not in palyrad's format"},
		"key: another field":      {edit("vault.kek", `"format"`, `"more":1,"format"`), reason.SecretUnreadable, "is not in palyrad's format"},
		"key: of another gateway": {edit("vault.kek", kektest.Gateway, "palyra.other"), reason.SecretUnreadable, "palyra.other"},
		"key: a shorter one":      {edit("vault.kek", `"key": "`, `"key": "AAAA`), reason.SecretUnreadable, ""},
		"key: gone":               {remove("vault.kek"), reason.VaultKeyMissing, "is missing"},
		"key: for the group":      {chmod("vault.kek", 0o640), reason.VaultLocked, "0640"},
		"key: for everybody":      {chmod("vault.kek", 0o604), reason.VaultLocked, "0604"},
		"key: a link":             {link("vault.kek"), reason.VaultLocked, "not a regular file"},
		"key: of somebody else":   {give("vault.kek"), reason.VaultLocked, "12345"},
		"pin: no JSON":            {write("vault.json", "x"), reason.SecretUnreadable, "vault.json"},
		"pin: empty":              {write("vault.json", "{}"), reason.SecretUnreadable, "vault.json"},
		"pin: another format":     {edit("vault.json", "palyra vault v1", "palyra vault v2"), reason.SecretUnreadable, "vault.json"},
		"pin: of another gateway": {edit("vault.json", kektest.Gateway, "palyra.other"), reason.SecretUnreadable, "palyra.other"},
		"pin: another backend":    {edit("vault.json", `"backend": "file"`, `"backend": "elsewhere"`), reason.VaultLocked, "elsewhere"},
		"pin: something left over": {edit("vault.json", `"leftover": []`, `"leftover": [{"backend":"file","id":"kek_1"}]`),
			reason.SecretUnreadable, "changed without the key"},
		"pin: another MAC":   {edit("vault.json", `"mac": "`, `"mac": "00`), reason.SecretUnreadable, "changed without the key"},
		"pin: no MAC":        {edit("vault.json", `"mac": "`, `"mac": "","check": "`), reason.SecretUnreadable, ""},
		"pin: for the group": {chmod("vault.json", 0o640), reason.VaultLocked, "0640"},
	} {
		dir := t.TempDir()
		r := must.Get(kek.Open(inFile(dir, nil)))(t)
		_, back := wrapped(t, r, "one")
		if err := c.change(dir); errors.Is(err, errSkip) {
			continue
		} else if err != nil {
			t.Fatal(name, err)
		}
		before := all(t, dir)
		o := inFile(dir, nil)
		o.Backend = kek.Auto
		r = must.Get(kek.Open(o))(t)
		err := back(r)
		is(t, name, err, c.want, c.says)
		if s := r.Status(t.Context()); s.Locked != (c.want != "") || s.Locked && (s.Remedy == "" || s.Reason != c.want) {
			t.Errorf("%s: %+v", name, s)
		}
		if all(t, dir) != before {
			t.Errorf("%s: something in the directory was changed", name)
		}
	}
}

var errSkip = errors.New("not here")

// all returns the names and contents of the files in a directory.
func all(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		text.WriteString(e.Name() + "\n")
		if b, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			text.Write(b)
		}
	}
	return text.String()
}

// A backend setting that differs from the pin is refused at the start, and no key is moved.
func TestPinnedBackend(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), kektest.NewMemory()
	list := []kek.Backend{m, kek.NewFile(dir, kektest.Gateway, nil)}
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.InFile, Backends: list}
	_, back := wrapped(t, must.Get(kek.Open(o))(t), "one")
	for _, setting := range []string{kek.Auto, kek.InFile} {
		o.Backend = setting
		must.Do(t, back(must.Get(kek.Open(o))(t)))
	}
	o.Backend = "memory"
	if _, err := kek.Open(o); reason.Of(err) != reason.ConfigInvalid || len(m.IDs()) > 0 {
		t.Errorf("another setting: %v", err)
	}
}

// The best working backend is selected, by its behavior. A backend that only seems to work is
// not selected, and a pinned backend that does not answer is not replaced.
func TestAuto(t *testing.T) {
	t.Parallel()
	broken := map[string]kek.Backend{
		"locked":         func() kek.Backend { m := kektest.NewMemory(); m.Lock(); return m }(),
		"forgets":        forgetful{kektest.NewMemory()},
		"lies":           liar{kektest.NewMemory()},
		"keeps for ever": &hoarder{kektest.NewMemory()},
	}
	for name, b := range broken {
		dir := t.TempDir()
		list := []kek.Backend{b, kek.NewFile(dir, kektest.Gateway, nil)}
		r := must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: list}))(t)
		if s := r.Status(t.Context()); s.Backend != kek.InFile || s.Locked {
			t.Errorf("%s: %+v", name, s)
		}
		// Control: a configured backend is not replaced either.
		dir = t.TempDir()
		list[1] = kek.NewFile(dir, kektest.Gateway, nil)
		r = must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: "memory", Backends: list}))(t)
		if s := r.Status(t.Context()); name == "locked" && (!s.Locked || s.Backend != "" || !strings.HasPrefix(s.String(), "no key yet, locked: ")) {
			t.Errorf("%s, set: %+v", name, s)
		}
	}
	m, dir := kektest.NewMemory(), t.TempDir()
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m, kek.NewFile(dir, kektest.Gateway, nil)}}
	_, back := wrapped(t, must.Get(kek.Open(o))(t), "one")
	if len(m.IDs()) != 1 {
		t.Errorf("the backend that works has %q", m.IDs())
	}
	m.Lock()
	r := must.Get(kek.Open(o))(t)
	is(t, "a pinned backend that does not answer", back(r), reason.VaultLocked)
	if _, err := os.Stat(filepath.Join(dir, "vault.kek")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a key was made in a file")
	}
	m.Unlock()
	must.Do(t, back(must.Get(kek.Open(o))(t)))
}

type ctx = context.Context

type forgetful struct{ *kektest.Memory }

func (forgetful) Put(ctx, string, []byte) error { return nil }

type liar struct{ *kektest.Memory }

func (liar) Get(ctx, string) ([]byte, error) { return make([]byte, 32), nil }

type hoarder struct{ *kektest.Memory }

func (*hoarder) Delete(ctx, string) error { return nil }

// TestPinMissing: without its pin, a gateway continues with the keys in its state directory, and
// creates none elsewhere.
func TestPinMissing(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), kektest.NewMemory()
	file := kek.NewFile(dir, kektest.Gateway, nil)
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.InFile, Backends: []kek.Backend{m, file}}
	r := must.Get(kek.Open(o))(t)
	_, one := wrapped(t, r, "one")
	second := must.Get(r.Rotate(t.Context()))(t)
	must.Do(t, os.Remove(filepath.Join(dir, "vault.json")))
	o.Backend = "memory"
	is(t, "another backend is set", one(must.Get(kek.Open(o))(t)), reason.VaultKeyMissing, "vault.json is missing")
	o.Backend = kek.Auto
	r = must.Get(kek.Open(o))(t)
	must.Do(t, one(r))
	if must.Get(r.Current(t.Context()))(t) != second || len(m.IDs()) != 0 {
		t.Error("the newest key in the file is not the current one")
	}
}
