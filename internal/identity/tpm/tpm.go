// Package tpm keeps keys in a TPM 2.0 (ISO/IEC 11889). P-256 keys are created inside it and
// never leave it. A TPM cannot sign with Ed25519, so that the seeds of such keys are sealed:
// the files on disk are useful only to the TPM that sealed them.
//
// The storage root key is derived for every operation from the template of the TCG (TPM v2.0
// Provisioning Guidance, 7.5.1), and nothing remains in the TPM afterwards. If deriving
// requires a password, the storage root key provisioned by the system is used. Every command
// with a secret uses a session that is salted with that key (TPM 2.0 Part 1, 19.6.13). The
// session encrypts the command's parameters, so that a listener on the bus learns nothing. Each
// blob names its storage root key: a key substituted on the bus is refused.
package tpm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"palyra/internal/core/reason"
)

// Module is the TPM behind a device. It is safe for concurrent use.
type Module struct {
	device string
	// open and patience are replaced in tests, which intercept the bus.
	open     func(device string) (transport.TPMCloser, error)
	patience time.Duration
	// turn has a capacity of one, so that one operation runs at a time.
	turn chan struct{}
	// silent is true while an operation has had no answer for longer than the patience.
	silent atomic.Bool
}

// patience limits the wait for an operation's turn and its end. A working TPM needs at most a
// second; the gateway runs for hours without it.
const patience = 30 * time.Second

// New returns the TPM behind a device: a character device of the kernel's resource manager
// (/dev/tpmrm0), or the Unix socket of a software TPM. It opens nothing.
func New(device string) *Module {
	return &Module{device: device, open: open, patience: patience, turn: make(chan struct{}, 1)}
}

// Name returns the device.
func (m *Module) Name() string { return m.device }

// work is one operation on an open TPM.
type work struct {
	tpm transport.TPM
	// parent is the storage root key.
	parent tpm2.NamedHandle
	public tpm2.TPMTPublic
}

// errSilent is the error for a TPM that does not answer.
var errSilent = errors.New("it does not answer")

// result is the result of an operation.
type result[T any] struct {
	value T
	err   error
}

// do runs an operation on the TPM. want is the name of the required storage root key; nil
// accepts any. A read of a device cannot be interrupted: a hanging operation is abandoned, and
// all later operations fail immediately until it has ended.
func do[T any](m *Module, want []byte, work func(*work) (T, error)) (T, error) {
	var none T
	if m.silent.Load() {
		return none, m.explain(errSilent, want != nil)
	}
	limit := time.NewTimer(m.patience)
	defer limit.Stop()
	select {
	case m.turn <- struct{}{}:
	case <-limit.C:
		return none, m.explain(errSilent, want != nil)
	}
	done := make(chan result[T], 1)
	go func() {
		value, err := once(m, want, work)
		done <- result[T]{value, err}
		m.silent.Store(false)
		<-m.turn
	}()
	select {
	case r := <-done:
		return r.value, m.explain(r.err, want != nil)
	case <-limit.C:
	}
	m.silent.Store(true)
	select {
	case r := <-done: // it has ended in the meantime
		m.silent.Store(false)
		return r.value, m.explain(r.err, want != nil)
	default:
		return none, m.explain(errSilent, want != nil)
	}
}

// once opens the TPM, derives the storage root key and runs the operation. Nothing remains loaded.
func once[T any](m *Module, want []byte, work func(*work) (T, error)) (value T, err error) {
	t, err := m.open(m.device)
	if err != nil {
		return value, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	w, err := parentOf(t, want)
	if err != nil {
		return value, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	return work(w)
}

// errForeign is the error for a blob that was created by another TPM, or by this TPM before it
// was cleared.
var errForeign = errors.New("its storage root key differs")

// provisioned is the handle of the storage root key that systems such as Windows create when they
// take ownership of the TPM (TPM v2.0 Provisioning Guidance, 7.8).
const provisioned tpm2.TPMHandle = 0x81000001

// parentOf returns the storage root key: the derived one, or the provisioned one if deriving
// requires a password or the keys belong to it. The caller closes it.
func parentOf(t transport.TPM, want []byte) (*work, error) {
	w, err := derive(t, want)
	if hasPassword(err) || errors.Is(err, errForeign) {
		if other, found := find(t, want); found {
			return other, nil
		}
	}
	return w, err
}

func derive(t transport.TPM, want []byte) (*work, error) {
	made, err := tpm2.CreatePrimary{
		PrimaryHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		InPublic:      tpm2.New2B(tpm2.ECCSRKTemplate),
	}.Execute(t)
	if err != nil {
		return nil, fmt.Errorf("deriving the storage root key: %w", err)
	}
	w, err := named(t, made.ObjectHandle, made.OutPublic, want)
	if err != nil {
		return nil, errors.Join(err, flush(t, made.ObjectHandle))
	}
	return w, nil
}

func hasPassword(err error) bool {
	return errors.Is(err, tpm2.TPMRCAuthFail) || errors.Is(err, tpm2.TPMRCBadAuth) || errors.Is(err, tpm2.TPMRCAuthMissing)
}

// find returns a usable provisioned storage root key with the name want.
func find(t transport.TPM, want []byte) (w *work, found bool) {
	read, err := tpm2.ReadPublic{ObjectHandle: provisioned}.Execute(t)
	if err != nil {
		return nil, false
	}
	if w, err = named(t, provisioned, read.OutPublic, want); err != nil {
		return nil, false
	}
	is := w.public.ObjectAttributes
	return w, is.FixedTPM && is.FixedParent && is.Restricted && is.Decrypt && is.UserWithAuth
}

func named(t transport.TPM, h tpm2.TPMHandle, of tpm2.TPM2BPublic, want []byte) (*work, error) {
	public, err := of.Contents()
	if err != nil {
		return nil, fmt.Errorf("reading the storage root key: %w", err)
	}
	// The name is computed here instead of read from the TPM, because it authenticates the public
	// key with which sessions are salted.
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return nil, fmt.Errorf("naming the storage root key: %w", err)
	}
	if want != nil && string(want) != string(name.Buffer) {
		return nil, errForeign
	}
	return &work{tpm: t, parent: tpm2.NamedHandle{Handle: h, Name: *name}, public: *public}, nil
}

// end removes a derived storage root key from the TPM.
func (w *work) end() error {
	if w.parent.Handle == provisioned {
		return nil
	}
	return flush(w.tpm, w.parent.Handle)
}

func flush(t transport.TPM, h tpm2.TPMHandle) error {
	_, err := tpm2.FlushContext{FlushHandle: h}.Execute(t)
	return err
}

// session authorizes one command. in and out select encryption of the first parameter; only
// sized buffers can be encrypted.
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

// loaded loads a blob, uses it and unloads it.
func loaded[T any](w *work, b blob, use func(tpm2.NamedHandle) (T, error)) (value T, err error) {
	l, err := tpm2.Load{
		ParentHandle: tpm2.AuthHandle{Handle: w.parent.Handle, Name: w.parent.Name, Auth: w.session(true, true)},
		InPrivate:    b.private, InPublic: b.public,
	}.Execute(w.tpm)
	if err != nil {
		return value, err
	}
	defer func() { err = errors.Join(err, flush(w.tpm, l.ObjectHandle)) }()
	public, err := b.public.Contents()
	if err != nil {
		return value, err
	}
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return value, err
	}
	return use(tpm2.NamedHandle{Handle: l.ObjectHandle, Name: *name})
}

// sealed is the template of a secret. It has no password: any process with access to the TPM
// and the blob can unseal it, and a password stored with the blob would add no protection.
// Failures do not count for the lockout of guessed passwords (noDA). The secret is not bound to
// a PCR, so that a firmware update does not lock out the gateway.
var sealed = tpm2.TPMTPublic{
	Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true},
}

// maxSecret is the size in bytes that every TPM can seal (MAX_SYM_DATA).
const maxSecret = 128

// Seal returns a blob that holds the secret, of at most 128 bytes, for this TPM.
func (m *Module) Seal(secret []byte) (text []byte, err error) {
	if len(secret) == 0 || len(secret) > maxSecret {
		return nil, fmt.Errorf("a TPM seals 1 to %d bytes, not %d", maxSecret, len(secret))
	}
	b, err := do(m, nil, func(w *work) (blob, error) {
		return w.create(tpm2.TPMSSensitiveCreate{Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret})}, sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return b.pem(), nil
}

// Unseal returns the data passed to Seal.
func (m *Module) Unseal(text []byte) (secret []byte, err error) {
	b, err := parse(text, sealed)
	if err != nil {
		return nil, err
	}
	secret, err = do(m, b.parent, func(w *work) ([]byte, error) {
		return loaded(w, b, func(h tpm2.NamedHandle) ([]byte, error) { return w.unseal(h, true) })
	})
	if err != nil {
		return nil, fmt.Errorf("unsealing: %w", err)
	}
	return secret, nil
}

func (w *work) unseal(h tpm2.NamedHandle, encrypted bool) ([]byte, error) {
	out, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: h.Handle, Name: h.Name, Auth: w.session(false, encrypted)}}.Execute(w.tpm)
	if err != nil {
		return nil, err
	}
	return out.OutData.Buffer, nil
}

// Prove tests once every operation that keys require, and leaves nothing in the TPM. It returns
// an error with the reason if the TPM lacks one of them.
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
		return m.unfit("unseal", errors.New("the unsealed data differs from the sealed data"))
	}
	return nil
}

func (m *Module) unfit(what string, err error) error {
	if reason.Of(err) != reason.Internal {
		return err // already contains the next step
	}
	return reason.Errorf(reason.ConfigInvalid, "the TPM %s cannot %s: %w", m.device, what, err).
		WithRemedy("Name another TPM in keys.tpm_device, or set keys.store to \"file\".")
}
