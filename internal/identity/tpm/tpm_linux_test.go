package tpm

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/tpm/tpmtest"
)

// wire is the bus between palyrad and the TPM, under an attacker's control.
type wire struct {
	transport.TPMCloser
	seen *bytes.Buffer
	// answer, if not nil, may answer a command instead of the TPM.
	answer func(code tpm2.TPMCC) []byte
	// change, if not nil, may change the TPM's response.
	change func(code tpm2.TPMCC, response []byte) []byte
}

func (w wire) Send(command []byte) ([]byte, error) {
	code := tpm2.TPMCC(binary.BigEndian.Uint32(command[6:]))
	w.seen.Write(command)
	if w.answer != nil {
		if res := w.answer(code); res != nil {
			return res, nil
		}
	}
	res, err := w.TPMCloser.Send(command)
	if err == nil && w.change != nil {
		res = w.change(code, res)
	}
	w.seen.Write(res)
	return res, err
}

// tapped returns a module whose bus is recorded.
func tapped(e *tpmtest.TPM, w wire) (*Module, *bytes.Buffer) {
	m := New(e.Device)
	w.seen = new(bytes.Buffer)
	m.open = func(device string) (t transport.TPMCloser, err error) {
		w.TPMCloser, err = open(device)
		return w, err
	}
	return m, w.seen
}

func TestKeysSign(t *testing.T) {
	t.Parallel()
	m := New(tpmtest.Start(t).Device)
	must.Do(t, m.Prove())
	made, text, err := m.NewKey()
	must.Do(t, err)
	digest := sha256.Sum256([]byte("hello"))
	for _, k := range []crypto.Signer{made, must.Get(m.Key(text))(t)} {
		sig := must.Get(k.Sign(nil, digest[:], crypto.SHA256))(t)
		public, ok := made.Public().(*ecdsa.PublicKey)
		if !ok || !ecdsa.VerifyASN1(public, digest[:], sig) {
			t.Error("the signature does not verify")
		}
		if _, err := k.Sign(nil, make([]byte, 48), crypto.SHA384); err == nil {
			t.Error("it signed a digest of another kind")
		}
	}
	// Concurrent operations wait for each other, and leave no objects in the TPM.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := made.Sign(nil, digest[:], crypto.SHA256)
			must.Check(t, err)
		})
	}
	all.Wait()
	must.Do(t, m.Prove())
}

func TestSealing(t *testing.T) {
	t.Parallel()
	m := New(tpmtest.Start(t).Device)
	secret := []byte("a seed of thirty-two bytes, as is")
	text := must.Get(m.Seal(secret))(t)
	if got := must.Get(m.Unseal(text))(t); !bytes.Equal(got, secret) {
		t.Errorf("got %q", got)
	}
	if bytes.Contains(text, secret) {
		t.Error("the blob holds the secret")
	}
	for _, n := range []int{0, maxSecret + 1} {
		if _, err := m.Seal(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were sealed", n)
		}
	}
	_, key, err := m.NewKey()
	must.Do(t, err)
	_, err = m.Unseal(key)
	reasontest.Want(t, "a key is no secret", err, reason.ConfigInvalid)
	_, err = m.Key(text)
	reasontest.Want(t, "a secret is no key", err, reason.ConfigInvalid)
	for i := range text {
		damaged := bytes.Clone(text)
		damaged[i] ^= 1
		if got, err := m.Unseal(damaged); err == nil && !bytes.Equal(got, secret) {
			t.Errorf("byte %d changed: another secret came out", i)
		}
	}
}

// TestLockedOut: wrong passwords of other programs lock the TPM, but not the gateway.
func TestLockedOut(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	m := New(e.Device)
	text := must.Get(m.Seal([]byte("secret")))(t)
	e.LockOut(t)
	must.Do(t, m.Prove())
	if got := must.Get(m.Unseal(text))(t); string(got) != "secret" {
		t.Errorf("got %q", got)
	}
	// Control: a key that is subject to the lockout cannot be used.
	_, err := do(m, nil, func(w *work) ([]byte, error) {
		counted := signing
		counted.ObjectAttributes.NoDA = false
		b, err := w.create(tpm2.TPMSSensitiveCreate{}, counted)
		must.Check(t, err)
		return loaded(w, b, func(h tpm2.NamedHandle) ([]byte, error) { return w.sign(h, make([]byte, 32)) })
	})
	if !errors.Is(err, tpm2.TPMRCLockout) {
		t.Errorf("the control: %v", err)
	}
}

// If the owner hierarchy has a password, the system's existing storage root key is used, and no
// other replaces it.
func TestOwnerHasAPassword(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	m := New(e.Device)
	derived := must.Get(m.Seal([]byte("derived")))(t)
	e.Provision(t)
	if got := must.Get(m.Unseal(derived))(t); string(got) != "derived" {
		t.Errorf("got %q", got)
	}
	e.SetOwnerPassword(t, "secret")
	must.Do(t, m.Prove())
	text := must.Get(m.Seal([]byte("secret")))(t)
	e.Halt()
	e.Boot(t)
	if got := must.Get(m.Unseal(text))(t); string(got) != "secret" {
		t.Errorf("got %q", got)
	}
	_, err := m.Unseal(derived)
	if reasontest.Want(t, "what the derived one sealed", err, reason.ConfigInvalid); !hasPassword(err) {
		t.Error(err)
	}
	e.SetOwnerPassword(t, "")
	for sealed, want := range map[string]string{string(text): "secret", string(derived): "derived"} {
		if got := must.Get(m.Unseal([]byte(sealed)))(t); string(got) != want {
			t.Errorf("without the password: got %q, want %q", got, want)
		}
	}
	other := tpmtest.Start(t)
	other.SetOwnerPassword(t, "secret")
	reasontest.Want(t, "without one", New(other.Device).Prove(), reason.ConfigInvalid)
}

// TestUnresponsiveTPM: an unresponsive TPM is awaited once; later operations fail at once until it
// responds again.
func TestUnresponsiveTPM(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	m := New(e.Device)
	text := must.Get(m.Seal([]byte("secret")))(t)
	e.Signal(t, syscall.SIGSTOP)
	m.patience = time.Millisecond
	for range 2 {
		_, err := m.Unseal(text)
		if reasontest.Want(t, "a TPM that hangs", err, reason.ConfigInvalid); !errors.Is(err, errSilent) {
			t.Error(err)
		}
		m.patience = time.Hour // fails without waiting
	}
	e.Signal(t, syscall.SIGCONT)
	m.turn <- struct{}{} // the hanging operation has ended
	<-m.turn
	if got := must.Get(m.Unseal(text))(t); string(got) != "secret" {
		t.Errorf("got %q", got)
	}
}

// TestBusEavesdropping: an eavesdropper on the bus sees no secret, in either direction.
func TestBusEavesdropping(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	m, seen := tapped(e, wire{})
	secret := []byte("what nobody on the bus may see")
	text := must.Get(m.Seal(secret))(t)
	must.Get(m.Unseal(text))(t)
	if bytes.Contains(seen.Bytes(), secret) {
		t.Error("the secret was on the bus")
	}
	// Control: without encryption the secret is visible.
	b := must.Get(parse(text, sealed))(t)
	must.Get(do(m, b.parent, func(w *work) ([]byte, error) {
		return loaded(w, b, func(h tpm2.NamedHandle) ([]byte, error) { return w.unseal(h, false) })
	}))(t)
	if !bytes.Contains(seen.Bytes(), secret) {
		t.Error("the control: the tap saw nothing")
	}
}

// TestBusTampering: an attacker on the bus presents their own storage root key, to which the
// session would be salted, or changes a response. The attacker obtains nothing.
func TestBusTampering(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	text := must.Get(New(e.Device).Seal([]byte("secret")))(t)
	var theirs []byte
	spy, _ := tapped(tpmtest.Start(t), wire{change: func(code tpm2.TPMCC, res []byte) []byte {
		if code == tpm2.TPMCCCreatePrimary {
			theirs = bytes.Clone(res)
		}
		return res
	}})
	must.Get(spy.Seal([]byte("x")))(t)
	replaced, seen := tapped(e, wire{change: func(code tpm2.TPMCC, res []byte) []byte {
		if code == tpm2.TPMCCCreatePrimary {
			return theirs
		}
		return res
	}})
	_, err := replaced.Unseal(text)
	if !errors.Is(err, errForeign) || bytes.Contains(seen.Bytes(), []byte("secret")) {
		t.Errorf("a storage root key in place of the TPM's: %v", err)
	}
	changed, _ := tapped(e, wire{change: func(code tpm2.TPMCC, res []byte) []byte {
		if code == tpm2.TPMCCUnseal {
			res = bytes.Clone(res)
			res[20] ^= 1
		}
		return res
	}})
	if _, err := changed.Unseal(text); err == nil {
		t.Error("a changed answer was taken")
	}
	if got := must.Get(New(e.Device).Unseal(text))(t); string(got) != "secret" {
		t.Errorf("control: %q", got)
	}
}

// TestUnsuitableTPM: a missing feature of the TPM is reported with the reason and the next step.
func TestUnsuitableTPM(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	for _, c := range []struct {
		what string
		code tpm2.TPMCC
		rc   tpm2.TPMRC
		next string
	}{
		{"no P-256", tpm2.TPMCCCreatePrimary, tpm2.TPMRCCurve, "keys.store"},
		{"no ECDSA", tpm2.TPMCCSign, tpm2.TPMRCScheme, "keys.store"},
		{"no sealing", tpm2.TPMCCUnseal, tpm2.TPMRCCommandCode, "keys.store"},
		{"no salted sessions", tpm2.TPMCCStartAuthSession, tpm2.TPMRCSymmetric, "keys.store"},
		{"locked out", tpm2.TPMCCCreate, tpm2.TPMRCLockout, "tpm2_dictionarylockout"},
		{"full", tpm2.TPMCCLoad, tpm2.TPMRCObjectMemory, "/dev/tpmrm0"},
		{"a hierarchy that is off", tpm2.TPMCCCreatePrimary, tpm2.TPMRCHierarchy, "firmware"},
		{"not started", tpm2.TPMCCCreatePrimary, tpm2.TPMRCInitialize, "Restart"},
	} {
		m, _ := tapped(e, wire{answer: func(code tpm2.TPMCC) []byte {
			if code != c.code {
				return nil
			}
			res := binary.BigEndian.AppendUint16(nil, uint16(tpm2.TPMSTNoSessions))
			res = binary.BigEndian.AppendUint32(res, 10)
			return binary.BigEndian.AppendUint32(res, uint32(c.rc))
		}})
		err := m.Prove()
		reasontest.Want(t, c.what, err, reason.ConfigInvalid)
		var known *reason.Error
		if errors.As(err, &known) && !strings.Contains(known.NextStep(), c.next) {
			t.Errorf("%s: the next step is %q", c.what, known.NextStep())
		}
	}
	must.Do(t, New(e.Device).Prove())
}

func TestDevices(t *testing.T) {
	t.Parallel()
	for device, want := range map[string]bool{"/dev/tpm0": true, "/dev/tpm12": true, "/dev/tpmrm0": false, "/dev/tpm": false, "/dev/vtpm0": false} {
		if unmanaged(device) != want {
			t.Errorf("%s: %v", device, !want)
		}
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	must.Do(t, os.Mkdir(closed, 0))
	for _, device := range []string{filepath.Join(dir, "none"), dir, "/dev/null", filepath.Join(closed, "tpmrm0")} {
		reasontest.Want(t, device, New(device).Prove(), reason.ConfigInvalid)
	}
}
