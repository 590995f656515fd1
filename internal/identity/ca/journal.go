package ca

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/statedir/keyfile"
)

// JournalKeys are the journal's checkpoint keys in the text forms of
// golang.org/x/mod/sumdb/note (C2SP signed notes, Ed25519).
type JournalKeys struct {
	keys    *keyStore
	root    *trustRoot
	issuing *Issuing

	// mu guards the fields below.
	mu       sync.Mutex
	signer   string
	verifier string
	// known has all keys, the current one first. A key without a certificate is from an older
	// release and has not been certified yet.
	known []JournalKey
	// next is a key that is not active yet. Its Verifier is "" if no such key exists.
	next nextJournalKey
}

// JournalKey is a checkpoint key with its certificate.
type JournalKey struct {
	// Verifier is the public key for note.NewVerifier.
	Verifier string
	// Chain is the certificate and its issuer, without the root.
	Chain []*x509.Certificate
	// CertifiedAt is the time of the certification. Verifiers check the certificate at that time,
	// not at the current time: the key may sign longer than the certificate is valid.
	CertifiedAt time.Time
	// First and Last are the smallest and largest tree size that the key signs. Last is 0 if the
	// range has no upper bound.
	First, Last int64
}

// ChainPEM returns the chain in PEM.
func (k JournalKey) ChainPEM() string { return string(chainPEM(k.Chain)) }

// Signer returns the text of the current signing key for checkpoints, for note.NewSigner. It is a
// secret.
func (j *JournalKeys) Signer() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.signer
}

// Verifiers returns the public keys of checkpoints, for note.NewVerifier, the current one first.
func (j *JournalKeys) Verifiers() []string {
	var list []string
	for _, k := range j.Keys() {
		list = append(list, k.Verifier)
	}
	return list
}

// Keys returns all checkpoint keys, the current one first.
func (j *JournalKeys) Keys() []JournalKey {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.known)
}

// A checkpoint key is replaced in three steps, so that a crash between them loses neither key.
// Next stores a new key, the journal durably records its takeover, and Adopt makes it the current
// one. If a next key exists when an authority is opened, the journal shows whether it took over:
// Adopt or Drop then completes the rotation.

// Next creates a checkpoint key with its certificate and stores it until it is adopted or dropped.
func (j *JournalKeys) Next() (signer string, key JournalKey, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	signer, verifier, err := note.GenerateKey(rand.Reader, j.root.domain+journalName)
	if err != nil {
		return "", key, err
	}
	if key, err = j.certify(verifier); err != nil {
		return "", key, err
	}
	next := nextJournalKey{Signer: signer, Key: stored(key)}
	if err := j.writeNext(j.keys.dir, next); err != nil {
		return "", key, err
	}
	j.next = next
	return signer, key, nil
}

// Pending returns the verifier of a key that was neither adopted nor dropped, or "".
func (j *JournalKeys) Pending() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next.Key.Verifier
}

// Adopt makes the next key the current one. The previous key signed tree sizes up to last. The file
// of the next key is removed last, so that the call can be repeated after a crash.
func (j *JournalKeys) Adopt(last int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.next
	if next.Key.Verifier == "" {
		return errors.New("no next checkpoint key exists")
	}
	adopted, err := next.Key.key()
	if err != nil {
		return err
	}
	adopted.First = last + 1
	known := []JournalKey{adopted}
	for _, k := range j.known {
		if k.Verifier == adopted.Verifier {
			continue
		}
		if k.Last == 0 {
			k.Last = last
		}
		known = append(known, k)
	}
	if err := writeJournalKeys(j.keys.dir, known); err != nil {
		return err
	}
	if err := writeJournalPast(j.keys.dir, known); err != nil {
		return err
	}
	if err := j.write(j.keys.dir, next.Signer, adopted.Verifier); err != nil {
		return err
	}
	j.signer, j.verifier, j.known = next.Signer, adopted.Verifier, known
	return j.dropNext()
}

// Drop deletes a next key that never became the current one.
func (j *JournalKeys) Drop() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropNext()
}

func (j *JournalKeys) dropNext() error {
	if err := os.Remove(filepath.Join(j.keys.dir, journalNextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j.next = nextJournalKey{}
	return keyfile.SyncDir(j.keys.dir)
}

// journalName is the part after the trust domain in the name of a checkpoint key.
const journalName = "/journal"

// certify issues a certificate for a checkpoint key, valid from now.
func (j *JournalKeys) certify(verifier string) (JournalKey, error) {
	pub, err := journalPublic(verifier)
	if err != nil {
		return JournalKey{}, err
	}
	issued, err := j.issuing.issue(&x509.Certificate{
		URIs:        []*url.URL{j.root.id(journalPath + "1")},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, pub, IssuingLife)
	if err != nil {
		return JournalKey{}, err
	}
	at := later(j.root.now().UTC().Truncate(time.Microsecond), issued.NotBefore)
	return JournalKey{Verifier: verifier, Chain: issued.Chain, CertifiedAt: at}, nil
}

// journalPublic returns the public key in a verifier's text: the name, the hash, and base64 of
// one byte for the algorithm and the key.
func journalPublic(verifier string) (ed25519.PublicKey, error) {
	if _, err := note.NewVerifier(verifier); err != nil {
		return nil, err
	}
	parts := strings.SplitN(verifier, "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize {
		return nil, errors.New("the checkpoint key is not an Ed25519 key")
	}
	return raw[1:], nil
}

// certifyOld certifies the keys in a state directory of an older release, which did not certify
// keys.
func (j *JournalKeys) certifyOld() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.ContainsFunc(j.known, func(k JournalKey) bool { return len(k.Chain) == 0 }) {
		return nil
	}
	known := slices.Clone(j.known)
	for i, k := range known {
		if len(k.Chain) > 0 {
			continue
		}
		made, err := j.certify(k.Verifier)
		if err != nil {
			return err
		}
		known[i].Chain, known[i].CertifiedAt = made.Chain, made.CertifiedAt
	}
	if err := writeJournalKeys(j.keys.dir, known); err != nil {
		return err
	}
	j.known = known
	return nil
}

// make creates the first checkpoint key, named after the trust domain.
func (j *JournalKeys) make(dir string) error {
	signer, verifier, err := note.GenerateKey(rand.Reader, j.root.domain+journalName)
	if err != nil {
		return err
	}
	key, err := j.certify(verifier)
	if err != nil {
		return err
	}
	if err := writeJournalKeys(dir, []JournalKey{key}); err != nil {
		return err
	}
	return j.write(dir, signer, verifier)
}
