// Package tpm keeps keys in a TPM 2.0 (ISO/IEC 11889). P-256 keys are made inside it
// and never leave it. It cannot sign with Ed25519, so the seeds of such keys are
// sealed: what lies on disk is of use only to the TPM that sealed it.
//
// The storage root key is derived anew for every operation, from the template of the
// TCG (TPM v2.0 Provisioning Guidance, 7.5.1), and nothing is left in the TPM
// afterwards. Every command that carries a secret goes through a session that is
// salted with that key (TPM 2.0 Part 1, 19.6.13) and encrypts its parameters, so that
// who listens on the bus learns nothing. Each blob names the storage root key that it
// belongs to: one that somebody on the bus puts in its place is refused.
package tpm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"palyra/internal/reason"
)

// Module is the TPM behind a device. It is safe for concurrent use.
type Module struct {
	device string
	// open is another one in tests, which stand on the bus.
	open func(device string) (transport.TPMCloser, error)
	mu   sync.Mutex
}

// New returns the TPM behind a device: a character device of the kernel's resource
// manager (/dev/tpmrm0), or the Unix socket of a TPM in software. Nothing is opened.
func New(device string) *Module { return &Module{device: device, open: open} }

// Name is the device.
func (m *Module) Name() string { return m.device }

// work is one operation on an open TPM.
type work struct {
	tpm transport.TPM
	// parent is the storage root key.
	parent tpm2.NamedHandle
	public tpm2.TPMTPublic
}

// do opens the TPM, derives the storage root key and works with it. Nothing stays
// loaded. want is the name of the storage root key that has to be there; nil takes any.
func (m *Module) do(want []byte, work func(*work) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.open(m.device)
	if err != nil {
		return err
	}
	err = derived(t, want, work)
	return m.explain(errors.Join(err, t.Close()))
}

// errForeign marks a blob that another TPM made, or this one before it was cleared.
var errForeign = errors.New("its storage root key is another")

func derived(t transport.TPM, want []byte, do func(*work) error) (err error) {
	made, err := tpm2.CreatePrimary{
		PrimaryHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		InPublic:      tpm2.New2B(tpm2.ECCSRKTemplate),
	}.Execute(t)
	if err != nil {
		return fmt.Errorf("deriving the storage root key: %w", err)
	}
	defer func() { err = errors.Join(err, flush(t, made.ObjectHandle)) }()
	public, err := made.OutPublic.Contents()
	if err != nil {
		return fmt.Errorf("reading the storage root key: %w", err)
	}
	// The name is computed here, and not what the TPM says it is: it stands for the
	// public key that sessions are salted with.
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return fmt.Errorf("naming the storage root key: %w", err)
	}
	if want != nil && string(want) != string(name.Buffer) {
		return errForeign
	}
	return do(&work{tpm: t, parent: tpm2.NamedHandle{Handle: made.ObjectHandle, Name: *name}, public: *public})
}

func flush(t transport.TPM, h tpm2.TPMHandle) error {
	_, err := tpm2.FlushContext{FlushHandle: h}.Execute(t)
	return err
}

// session authorises one command. in and out say which first parameters are secret;
// only sized buffers can be encrypted.
func (w *work) session(in, out bool) tpm2.Session {
	options := []tpm2.AuthOption{tpm2.Salted(w.parent.Handle, w.public)}
	switch {
	case in && out:
		options = append(options, tpm2.AESEncryption(128, tpm2.EncryptInOut))
	case in:
		options = append(options, tpm2.AESEncryption(128, tpm2.EncryptIn))
	case out:
		options = append(options, tpm2.AESEncryption(128, tpm2.EncryptOut))
	}
	return tpm2.HMAC(tpm2.TPMAlgSHA256, 16, options...)
}

func (w *work) create(sensitive tpm2.TPMSSensitiveCreate, template tpm2.TPMTPublic) (blob, error) {
	made, err := tpm2.Create{
		ParentHandle: tpm2.AuthHandle{Handle: w.parent.Handle, Name: w.parent.Name, Auth: w.session(true, true)},
		InSensitive:  tpm2.TPM2BSensitiveCreate{Sensitive: &sensitive},
		InPublic:     tpm2.New2B(template),
	}.Execute(w.tpm)
	if err != nil {
		return blob{}, err
	}
	return blob{parent: w.parent.Name.Buffer, public: made.OutPublic, private: made.OutPrivate}, nil
}

// loaded loads a blob, uses it and takes it out again.
func (w *work) loaded(b blob, use func(tpm2.NamedHandle) error) (err error) {
	l, err := tpm2.Load{
		ParentHandle: tpm2.AuthHandle{Handle: w.parent.Handle, Name: w.parent.Name, Auth: w.session(true, true)},
		InPrivate:    b.private, InPublic: b.public,
	}.Execute(w.tpm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush(w.tpm, l.ObjectHandle)) }()
	public, err := b.public.Contents()
	if err != nil {
		return err
	}
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return err
	}
	return use(tpm2.NamedHandle{Handle: l.ObjectHandle, Name: *name})
}

// sealed is the template of a secret. It has no password: whoever reaches the TPM and
// has the blob can unseal it; a password beside the blob would add nothing. It does
// not count for the lockout of guessed passwords (noDA), and is bound to no PCR, so
// that an update of the firmware does not lock the gateway out.
var sealed = tpm2.TPMTPublic{
	Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true},
}

// maxSecret is the most that every TPM seals, in bytes (MAX_SYM_DATA).
const maxSecret = 128

// Seal returns a blob that holds the secret, of at most 128 bytes, for this TPM.
func (m *Module) Seal(secret []byte) (text []byte, err error) {
	if len(secret) == 0 || len(secret) > maxSecret {
		return nil, fmt.Errorf("a TPM seals 1 to %d bytes, not %d", maxSecret, len(secret))
	}
	err = m.do(nil, func(w *work) error {
		b, err := w.create(tpm2.TPMSSensitiveCreate{
			Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret}),
		}, sealed)
		text = b.pem()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return text, nil
}

// Unseal returns what Seal was given.
func (m *Module) Unseal(text []byte) (secret []byte, err error) {
	b, err := parse(text, sealed)
	if err != nil {
		return nil, err
	}
	err = m.do(b.parent, func(w *work) error {
		return w.loaded(b, func(h tpm2.NamedHandle) error {
			out, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: h.Handle, Name: h.Name, Auth: w.session(false, true)}}.Execute(w.tpm)
			if err == nil {
				secret = out.OutData.Buffer
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("unsealing: %w", err)
	}
	return secret, nil
}

// Prove refuses a TPM that cannot do what keys need, with the reason. It does all of
// it once and leaves nothing behind.
func (m *Module) Prove() error {
	key, text, err := m.NewKey()
	if err != nil {
		return m.unfit("make a P-256 key", err)
	}
	digest := make([]byte, 32)
	if _, err := key.Sign(nil, digest, sha256Only{}); err != nil {
		return m.unfit("sign with P-256 and SHA-256", err)
	}
	if _, err := m.Key(text); err != nil {
		return m.unfit("load a key that it made", err)
	}
	const probe = "palyra: what is sealed comes back"
	text, err = m.Seal([]byte(probe))
	if err != nil {
		return m.unfit("seal", err)
	}
	back, err := m.Unseal(text)
	if err != nil {
		return m.unfit("unseal", err)
	}
	if string(back) != probe {
		return m.unfit("unseal", errors.New("what was sealed is not what came back"))
	}
	return nil
}

func (m *Module) unfit(what string, err error) error {
	if reason.Of(err) != reason.Internal {
		return err // says what to do already
	}
	return reason.Errorf(reason.ConfigInvalid, "the TPM %s cannot %s: %w", m.device, what, err).
		WithRemedy("Name another TPM in keys.tpm_device, or set keys.store to \"file\".")
}
