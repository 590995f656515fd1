package ca

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/identity/tpm"
	"palyra/internal/identity/tpm/tpmtest"
)

// inTPM returns an authority whose keys are in a TPM.
func inTPM(t *testing.T) (*Authority, *clock, *tpmtest.TPM) {
	t.Helper()
	e, c := tpmtest.Start(t), newClock()
	return open(t, filepath.Join(t.TempDir(), "ca"), Options{Now: c.Now, TrustDomain: "palyra.local", Module: tpm.New(e.Device)}), c, e
}

func (a *Authority) again(c *clock) Options {
	return Options{Now: c.Now, Module: a.keys.module}
}

// contents returns the files of a directory by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files
	}
	must.Do(t, err)
	for _, e := range entries {
		files[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
	}
	return files
}

// hasSecret reports whether text contains an unsealed key, in one of the formats of key files.
func hasSecret(text string, a *Authority) bool {
	seed, _ := a.Notary.Key().Signer.(ed25519.PrivateKey)
	raw, _ := base64.StdEncoding.DecodeString(a.Journal.Signer()[strings.LastIndexByte(a.Journal.Signer(), '+')+1:])
	for rest := []byte(text); ; {
		block, more := pem.Decode(rest)
		if block == nil {
			break
		}
		if bytes.Contains(block.Bytes, seed.Seed()) || len(raw) > 1 && bytes.Contains(block.Bytes, raw[1:]) {
			return true
		}
		rest = more
	}
	return strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, a.Journal.Signer())
}

func TestKeysInATPM(t *testing.T) {
	t.Parallel()
	a, c, _ := inTPM(t)
	for name, text := range contents(t, a.keys.dir) {
		if hasSecret(text, a) {
			t.Errorf("%s holds a key in plain", name)
		}
	}
	plain, _ := newAuthorityAt(t)
	if text := contents(t, plain.keys.dir); !hasSecret(text[notaryFile], plain) || !hasSecret(text[journalFile], plain) || !hasSecret(text[rootFile], plain) {
		t.Error("the control: keys in files are not seen")
	}
	b := open(t, a.keys.dir, a.again(c))
	if !a.Root().Equal(b.Root()) || a.Journal.Signer() != b.Journal.Signer() || !a.Notary.Key().Chain[0].Equal(b.Notary.Key().Chain[0]) {
		t.Error("the second start does not find what the first made")
	}
	for _, p := range b.Places() {
		if p.Place != PlaceTPM || !strings.Contains(p.Detail, a.keys.module.Name()) {
			t.Errorf("%+v", p)
		}
	}
	cert := device(t, b)
	if _, s, cl := catest.Handshake(t, serverOf(t, b, Loopback()), client(b, c.Now, cert)); s != nil || cl != nil {
		t.Errorf("handshake: %v, %v", s, cl)
	}
}

// Renewal and rotation keep keys in the TPM.
func TestRotationInATPM(t *testing.T) {
	t.Parallel()
	a, c, _ := inTPM(t)
	first, notary := a.Journal.Signer(), a.Notary.Key()
	c.Add(IssuingLife * 3 / 4)
	must.Do(t, a.Maintain()) // the root signs another intermediate, with its own key
	must.Get(a.Notary.Rotate())(t)
	next, _, err := a.Journal.Next()
	must.Do(t, err)
	b := open(t, a.keys.dir, a.again(c)) // a crash before the adoption
	must.Do(t, b.Journal.Adopt(7))
	d := open(t, a.keys.dir, a.again(c))
	if d.Journal.Signer() != next || next == first || d.Notary.Key().Chain[0].Equal(notary.Chain[0]) {
		t.Error("a rotated key is not in use")
	}
	for name, text := range contents(t, a.keys.dir) {
		if hasSecret(text, d) || hasSecret(text, a) || hasSecret(text, b) {
			t.Errorf("%s holds a key in plain", name)
		}
	}
}

// The trust domain of a new gateway is derived from its root's public key, also for a key in a
// TPM.
func TestOwnDomainOfARootInATPM(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	a := open(t, filepath.Join(t.TempDir(), "ca"), Options{Module: tpm.New(e.Device)})
	if want := must.Get(ownDomain(a.Root().PublicKey))(t); a.TrustDomain() != want {
		t.Errorf("%s, want %s", a.TrustDomain(), want)
	}
}

// refusedWith checks that an authority does not open, that the error names the next step, and
// that no file has changed.
func refusedWith(t *testing.T, what, dir string, o Options, next string) {
	t.Helper()
	before := contents(t, dir)
	_, _, err := Open(dir, o)
	reasontest.Want(t, what, err, reason.ConfigInvalid)
	var e *reason.Error
	if errors.As(err, &e) && !strings.Contains(e.NextStep(), next) {
		t.Errorf("%s: the next step is %q, want %q", what, e.NextStep(), next)
	}
	after := contents(t, dir)
	if len(before) != len(after) {
		t.Errorf("%s: %d files became %d", what, len(before), len(after))
	}
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s: %s changed", what, name)
		}
	}
	for _, suffix := range []string{".new", sealingSuffix, sealedSuffix} {
		if _, err := os.Stat(dir + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s is there: %v", what, suffix, err)
		}
	}
}

// A TPM that did not create the keys cannot open them, and neither can one that was reset.
func TestAnotherTPM(t *testing.T) {
	t.Parallel()
	a, c, e := inTPM(t)
	other := tpmtest.Start(t)
	refusedWith(t, "another TPM", a.keys.dir, Options{Now: c.Now, Module: tpm.New(other.Device)}, "Start palyrad with the TPM that made the keys")
	e.Halt()
	refusedWith(t, "no TPM", a.keys.dir, a.again(c), "Start palyrad with the TPM that made the keys")
	if keys, err := ReadJournalKeys(a.keys.dir); err != nil || keys[0].Verifier != a.Journal.Verifiers()[0] {
		t.Errorf("what verifies the journal needs the TPM: %v", err)
	}
	e.Boot(t)
	open(t, a.keys.dir, a.again(c)) // control: a restart of the machine
	e.SetOwnerPassword(t, "secret")
	refusedWith(t, "a password of the owner hierarchy", a.keys.dir, a.again(c), "tpm2_changeauth -c owner`).")
	e.Clear(t)
	refusedWith(t, "a cleared TPM", a.keys.dir, a.again(c), "Start palyrad with the TPM that made the keys")
}

// A request that the TPM cannot fulfil is refused before any file is written.
func TestSetUpRefusals(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	e.SetOwnerPassword(t, "secret")
	for _, c := range []struct{ what, device, next string }{
		{"no device", "/none/tpmrm0", "set keys.store to \"file\""},
		{"no TPM", file, "set keys.store to \"file\""},
		{"a password of the owner hierarchy", e.Device, "tpm2_changeauth"},
	} {
		refusedWith(t, c.what, filepath.Join(t.TempDir(), "ca"), Options{Module: tpm.New(c.device)}, c.next)
	}
	if _, created, err := Open(filepath.Join(t.TempDir(), "ca"), Options{Module: tpm.New(tpmtest.Start(t).Device)}); err != nil || !created {
		t.Errorf("control: %v", err)
	}
}

// If the settings contradict the files, the authority does not open. A plain key is not
// accepted as one in a TPM, and the next key is not written to a file.
func TestSettingsAndFilesDisagree(t *testing.T) {
	t.Parallel()
	a, c, _ := inTPM(t)
	refusedWith(t, "keys in a TPM, store is file", a.keys.dir, Options{Now: c.Now}, "Set keys.store to \"tpm\"")
	plain, c := newAuthorityAt(t)
	refusedWith(t, "keys in files, store is tpm", plain.keys.dir, Options{Now: c.Now, Module: a.keys.module}, "palyrad keys seal")
}

// One plain key among sealed keys, as an old backup can restore it, is refused until it is
// moved into the TPM.
func TestOneKeyInPlain(t *testing.T) {
	t.Parallel()
	m := tpm.New(tpmtest.Start(t).Device)
	was, c, cert := sealable(t)
	o, before := Options{Now: c.Now, Module: m}, contents(t, was.keys.dir)
	must.Get(Seal(was.keys.dir, o))(t)
	for _, name := range []string{issuingFile, notaryFile, journalFile, journalNextFile} {
		must.Do(t, os.WriteFile(filepath.Join(was.keys.dir, name), []byte(before[name]), 0o600))
		refusedWith(t, name, was.keys.dir, o, "palyrad keys seal")
		if moved, err := Seal(was.keys.dir, o); err != nil || !moved {
			t.Errorf("%s: moved %v, %v", name, moved, err)
		}
		isSame(t, name, was, open(t, was.keys.dir, o), cert)
	}
}

// A sealed key in the place of another is refused.
func TestSwappedBlobs(t *testing.T) {
	t.Parallel()
	a, c, _ := inTPM(t)
	other := open(t, filepath.Join(t.TempDir(), "ca"), Options{Now: c.Now, Module: a.keys.module, TrustDomain: "palyra.local"})
	files, foreign := contents(t, a.keys.dir), contents(t, other.keys.dir)
	key := func(text string) (block, rest string) {
		end := strings.Index(text, "-----END") + strings.Index(text[strings.Index(text, "-----END"):], "\n") + 1
		return text[:end], text[end:]
	}
	for name, text := range map[string]func() string{
		rootFile:    func() string { b, _ := key(foreign[rootFile]); _, r := key(files[rootFile]); return b + r },
		issuingFile: func() string { b, _ := key(files[rootFile]); _, r := key(files[issuingFile]); return b + r },
		notaryFile:  func() string { b, _ := key(files[journalFile]); _, r := key(files[notaryFile]); return b + r },
		journalFile: func() string { b, _ := key(files[notaryFile]); _, r := key(files[journalFile]); return b + r },
	} {
		must.Do(t, os.WriteFile(filepath.Join(a.keys.dir, name), []byte(text()), 0o600))
		refusedWith(t, name, a.keys.dir, a.again(c), "Restore the file")
		damagedText := strings.Replace(files[name], "\n", "\nA", 3)
		must.Do(t, os.WriteFile(filepath.Join(a.keys.dir, name), []byte(damagedText), 0o600))
		if _, _, err := Open(a.keys.dir, a.again(c)); err == nil {
			t.Errorf("%s: a damaged blob opens", name)
		}
		must.Do(t, os.WriteFile(filepath.Join(a.keys.dir, name), []byte(files[name]), 0o600))
	}
	open(t, a.keys.dir, a.again(c)) // control
}

// Every file of an authority is private, even if it contains only sealed keys.
func TestModesOfEveryFile(t *testing.T) {
	t.Parallel()
	sealed, c, _ := inTPM(t)
	plain, _ := newAuthorityAt(t)
	for _, a := range []*Authority{sealed, plain} {
		_, _, err := a.Journal.Next()
		must.Do(t, err)
		must.Get(a.Notary.Rotate())(t)
		must.Do(t, writeJournalPast(a.keys.dir, a.Journal.Keys()))
		o := Options{Now: c.Now, Module: a.keys.module}
		names := contents(t, a.keys.dir)
		if len(names) != 8 {
			t.Errorf("%d files", len(names))
		}
		for name := range names {
			path := filepath.Join(a.keys.dir, name)
			must.Do(t, os.Chmod(path, 0o644))
			_, _, err := Open(a.keys.dir, o)
			var e *reason.Error
			if !errors.As(err, &e) || e.Code != reason.ConfigInvalid || !strings.Contains(e.NextStep(), "chmod 600 "+path) {
				t.Errorf("%s with mode 0644: %v", name, err)
			}
			must.Do(t, os.Chmod(path, 0o600))
		}
		open(t, a.keys.dir, o)
	}
}

var errKilled = errors.New("killed")

// dying is a module whose process is killed at a chosen call.
type dying struct {
	Module
	at, calls int
}

func (d *dying) step() {
	if d.calls++; d.calls == d.at {
		panic(errKilled)
	}
}

func (d *dying) NewKey() (crypto.Signer, []byte, error) { d.step(); return d.Module.NewKey() }
func (d *dying) Seal(b []byte) ([]byte, error)          { d.step(); return d.Module.Seal(b) }
func (d *dying) Unseal(b []byte) ([]byte, error)        { d.step(); return d.Module.Unseal(b) }
func (d *dying) Key(b []byte) (crypto.Signer, error)    { d.step(); return d.Module.Key(b) }

// killed reports whether do ended in a simulated kill.
func killed(do func()) (dead bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != any(errKilled) {
				panic(p)
			}
			dead = true
		}
	}()
	do()
	return false
}

func TestKillAtEveryStepOfSetUp(t *testing.T) {
	t.Parallel()
	m := tpm.New(tpmtest.Start(t).Device)
	for at := 1; ; at++ {
		dir := filepath.Join(t.TempDir(), "ca")
		o := Options{Module: &dying{Module: m, at: at}}
		if !killed(func() { open(t, dir, o) }) {
			if at < 6 {
				t.Errorf("only %d steps", at)
			}
			return
		}
		a, _, err := Open(dir, Options{Module: m})
		if err != nil || a.Places()[0].Place != PlaceTPM {
			t.Fatalf("killed at step %d: %v", at, err)
		}
	}
}

// sealable returns an authority with key files and a rotation of the checkpoint key in
// progress.
func sealable(t *testing.T) (*Authority, *clock, *tls.Certificate) {
	t.Helper()
	a, c := newAuthorityAt(t)
	_, _, err := a.Journal.Next()
	must.Do(t, err)
	return a, c, device(t, a)
}

// isSame checks that an authority has the same keys as before.
func isSame(t *testing.T, what string, was, is *Authority, cert *tls.Certificate) {
	t.Helper()
	if !is.Root().Equal(was.Root()) || is.Journal.Signer() != was.Journal.Signer() || is.Journal.Pending() != was.Journal.Pending() ||
		is.Journal.next.Signer != was.Journal.next.Signer || !is.Notary.Key().Chain[0].Equal(was.Notary.Key().Chain[0]) {
		t.Errorf("%s: not the same keys", what)
	}
	if _, err := is.VerifyDevice(chain(t, cert)); err != nil {
		t.Errorf("%s: a device of before: %v", what, err)
	}
}

func TestSeal(t *testing.T) {
	t.Parallel()
	m := tpm.New(tpmtest.Start(t).Device)
	was, c, cert := sealable(t)
	leaveCopies(t, was.keys.dir)
	o := Options{Now: c.Now, Module: m}
	for _, want := range []bool{true, false} {
		if moved, err := Seal(was.keys.dir, o); err != nil || moved != want {
			t.Fatalf("moved %v, %v", moved, err)
		}
	}
	is := open(t, was.keys.dir, o)
	isSame(t, "sealed", was, is, cert)
	var places []string
	for _, p := range is.Places() {
		places = append(places, p.Key+" "+p.Place)
	}
	if got := strings.Join(places, ", "); got != "root file, issuing tpm, notary tpm, journal tpm" {
		t.Error(got)
	}
	for name, text := range contents(t, was.keys.dir) {
		if name != rootFile && hasSecret(text, is) {
			t.Errorf("%s holds a key in plain", name)
		}
	}
	must.Do(t, is.Journal.Adopt(3))
	if text := contents(t, was.keys.dir)[journalFile]; hasSecret(text, is) {
		t.Error("the adopted key lies in plain")
	}
	if _, err := is.VerifyDevice([]*x509.Certificate{device(t, is).Leaf, is.Issuing.current.cert}); err != nil {
		t.Error(err)
	}
	_, err := Seal(filepath.Join(t.TempDir(), "ca"), o)
	reasontest.Want(t, "no authority", err, reason.ConfigInvalid)
}

// A kill before the point of no return leaves the keys in files, and a kill after it leaves
// them in the TPM. This holds for every step, and a repetition succeeds.
func TestKillAtEveryStepOfSeal(t *testing.T) {
	t.Parallel()
	m := tpm.New(tpmtest.Start(t).Device)
	for at := 1; ; at++ {
		was, c, cert := sealable(t)
		o := Options{Now: c.Now, Module: &dying{Module: m, at: at}}
		dead := killed(func() { must.Get(Seal(was.keys.dir, o))(t) })
		if !dead {
			if at < 4 {
				t.Errorf("only %d steps", at)
			}
			break
		}
		if _, err := Inspect(was.keys.dir, Options{Now: c.Now}); err != nil {
			t.Errorf("killed at step %d: %v", at, err)
		}
		isSame(t, "killed", was, open(t, was.keys.dir, Options{Now: c.Now}), cert)
		o.Module = m
		must.Get(Seal(was.keys.dir, o))(t)
		isSame(t, "sealed after it was killed", was, open(t, was.keys.dir, o), cert)
	}
	killedWhileMoving(t, m)
}

// killedWhileMoving stops after each rename that follows the point of no return.
func killedWhileMoving(t *testing.T, m Module) {
	for after := 0; ; after++ {
		was, c, cert := sealable(t)
		o := Options{Now: c.Now, Module: m}
		was.keys.module = m
		must.Do(t, was.sealInto(was.keys.dir+sealingSuffix))
		files := must.Get(os.ReadDir(was.keys.dir + sealedSuffix))(t)
		if after > len(files) {
			if after != 5 {
				t.Errorf("%d files were moved", after-1)
			}
			return
		}
		for _, f := range files[:after] {
			must.Do(t, os.Rename(filepath.Join(was.keys.dir+sealedSuffix, f.Name()), filepath.Join(was.keys.dir, f.Name())))
		}
		_, err := Inspect(was.keys.dir, o)
		reasontest.Want(t, "in the middle of a move", err, reason.ConfigInvalid)
		if after%2 == 0 {
			moved, err := Seal(was.keys.dir, o)
			if err != nil || moved {
				t.Errorf("after %d files: moved %v, %v", after, moved, err)
			}
		}
		isSame(t, "killed while moving", was, open(t, was.keys.dir, o), cert)
	}
}
