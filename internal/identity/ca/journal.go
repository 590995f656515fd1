package ca

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// journalKeys are the journal's checkpoint keys in the text forms of
// golang.org/x/mod/sumdb/note (C2SP signed notes, Ed25519).
type journalKeys struct {
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

// storedJournalKey is the stored form of a JournalKey.
type storedJournalKey struct {
	Verifier    string    `json:"verifier"`
	Chain       string    `json:"chain"`
	CertifiedAt time.Time `json:"certified_at"`
	First       int64     `json:"first_size"`
	Last        int64     `json:"last_size,omitempty"`
}

// nextJournalKey is a key whose takeover is not journaled yet.
type nextJournalKey struct {
	Signer string           `json:"signer"`
	Key    storedJournalKey `json:"key"`
}

// JournalSigner returns the text of the current signing key for checkpoints, for
// note.NewSigner. It is a secret.
func (a *Authority) JournalSigner() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.signer
}

// JournalVerifiers returns the public keys of checkpoints, for note.NewVerifier, the current
// one first.
func (a *Authority) JournalVerifiers() []string {
	var list []string
	for _, k := range a.JournalKeys() {
		list = append(list, k.Verifier)
	}
	return list
}

// JournalKeys returns all checkpoint keys, the current one first.
func (a *Authority) JournalKeys() []JournalKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.journal.known)
}

// A checkpoint key is replaced in three steps, so that a crash between them loses neither key.
// NextJournalKey stores a new key, the journal durably records its takeover, and AdoptJournalKey
// makes it the current one. If a next key exists when an authority is opened, the journal shows
// whether it took over: AdoptJournalKey or DropJournalKey then completes the rotation.

// NextJournalKey creates a checkpoint key with its certificate and stores it until it is adopted or
// dropped.
func (a *Authority) NextJournalKey() (signer string, key JournalKey, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renewIssuing(); err != nil {
		return "", key, err
	}
	signer, verifier, err := note.GenerateKey(rand.Reader, a.domain+journalName)
	if err != nil {
		return "", key, err
	}
	if key, err = a.certifyJournalKey(verifier); err != nil {
		return "", key, err
	}
	next := nextJournalKey{Signer: signer, Key: stored(key)}
	if err := a.writeNext(a.dir, next); err != nil {
		return "", key, err
	}
	a.journal.next = next
	return signer, key, nil
}

func (a *Authority) writeNext(dir string, next nextJournalKey) (err error) {
	if next.Signer, err = a.signerText(next.Signer); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, journalNextFile), next)
}

// PendingJournalKey returns the verifier of a key that was neither adopted nor dropped, or "".
func (a *Authority) PendingJournalKey() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.next.Key.Verifier
}

// AdoptJournalKey makes the next key the current one. The previous key signed tree sizes up to
// last. The file of the next key is removed last, so that the call can be repeated after a
// crash.
func (a *Authority) AdoptJournalKey(last int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.journal.next
	if next.Key.Verifier == "" {
		return errors.New("no next checkpoint key exists")
	}
	adopted, err := next.Key.key()
	if err != nil {
		return err
	}
	adopted.First = last + 1
	known := []JournalKey{adopted}
	for _, k := range a.journal.known {
		if k.Verifier == adopted.Verifier {
			continue
		}
		if k.Last == 0 {
			k.Last = last
		}
		known = append(known, k)
	}
	if err := a.writeJournalKeys(a.dir, known); err != nil {
		return err
	}
	if err := writeJournalPast(a.dir, known); err != nil {
		return err
	}
	if err := a.writeJournalKey(a.dir, next.Signer, adopted.Verifier); err != nil {
		return err
	}
	a.journal.signer, a.journal.verifier, a.journal.known = next.Signer, adopted.Verifier, known
	return a.dropNext()
}

// DropJournalKey deletes a next key that never became the current one.
func (a *Authority) DropJournalKey() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropNext()
}

func (a *Authority) dropNext() error {
	if err := os.Remove(filepath.Join(a.dir, journalNextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.journal.next = nextJournalKey{}
	return keyfile.SyncDir(a.dir)
}

// journalName is the part after the trust domain in the name of a checkpoint key.
const journalName = "/journal"

// certifyJournalKey issues a certificate for a checkpoint key, valid from now.
func (a *Authority) certifyJournalKey(verifier string) (JournalKey, error) {
	pub, err := journalPublic(verifier)
	if err != nil {
		return JournalKey{}, err
	}
	issued, err := a.issueLocked(&x509.Certificate{
		URIs:        []*url.URL{a.id(journalPath + "1")},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, pub, IssuingLife)
	if err != nil {
		return JournalKey{}, err
	}
	at := later(a.now().UTC().Truncate(time.Microsecond), issued.NotBefore)
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

// certifyJournalKeys certifies the keys in a state directory of an older release, which did not
// certify keys.
func (a *Authority) certifyJournalKeys() error {
	if !slices.ContainsFunc(a.journal.known, func(k JournalKey) bool { return len(k.Chain) == 0 }) {
		return nil
	}
	known := slices.Clone(a.journal.known)
	for i, k := range known {
		if len(k.Chain) > 0 {
			continue
		}
		made, err := a.certifyJournalKey(k.Verifier)
		if err != nil {
			return err
		}
		known[i].Chain, known[i].CertifiedAt = made.Chain, made.CertifiedAt
	}
	if err := a.writeJournalKeys(a.dir, known); err != nil {
		return err
	}
	a.journal.known = known
	return nil
}

// makeJournalKey creates the first checkpoint key, named after the trust domain.
func (a *Authority) makeJournalKey(dir string) error {
	signer, verifier, err := note.GenerateKey(rand.Reader, a.domain+journalName)
	if err != nil {
		return err
	}
	key, err := a.certifyJournalKey(verifier)
	if err != nil {
		return err
	}
	if err := a.writeJournalKeys(dir, []JournalKey{key}); err != nil {
		return err
	}
	return a.writeJournalKey(dir, signer, verifier)
}

func (a *Authority) writeJournalKey(dir, signer, verifier string) error {
	text, err := a.signerText(signer)
	if err != nil {
		return err
	}
	return keyfile.Write(filepath.Join(dir, journalFile), []byte(strings.TrimSpace(text)+"\n"+verifier+"\n"))
}

// writeJournalPast writes the file from which older releases read the earlier keys.
func writeJournalPast(dir string, known []JournalKey) error {
	var text strings.Builder
	for _, k := range known[1:] {
		text.WriteString(k.Verifier + "\n")
	}
	return keyfile.Write(filepath.Join(dir, journalPastFile), []byte(text.String()))
}

func (a *Authority) writeJournalKeys(dir string, known []JournalKey) error {
	list := make([]storedJournalKey, len(known))
	for i, k := range known {
		list[i] = stored(k)
	}
	return writeJSON(filepath.Join(dir, journalKeysFile), list)
}

func stored(k JournalKey) storedJournalKey {
	return storedJournalKey{Verifier: k.Verifier, Chain: k.ChainPEM(), CertifiedAt: k.CertifiedAt, First: k.First, Last: k.Last}
}

func (s storedJournalKey) key() (JournalKey, error) {
	k := JournalKey{Verifier: s.Verifier, CertifiedAt: s.CertifiedAt, First: s.First, Last: s.Last}
	var err error
	if s.Chain != "" {
		k.Chain, err = ParseChain([]byte(s.Chain))
	}
	return k, err
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return keyfile.Write(path, append(text, '\n'))
}

// readJSON parses a file. It leaves into unchanged if the file does not exist.
func readJSON(path string, into any) error {
	text, err := keyfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err).
			WithRemedy("Restore the file from a backup of the state directory.")
	}
	return nil
}

func (a *Authority) loadJournalKeys() error {
	path := filepath.Join(a.dir, journalFile)
	text, verifier, err := readJournalKey(path)
	if err != nil {
		return err
	}
	signer, err := a.openSigner(text, verifier)
	if err != nil {
		return damaged(path, err)
	}
	if !isSealed(text) {
		if err := a.foundPlain(path); err != nil {
			return err
		}
	}
	known, err := ReadJournalKeys(a.dir)
	if err != nil {
		return err
	}
	a.journal = journalKeys{signer: signer, verifier: verifier, known: known}
	return a.loadNext()
}

func (a *Authority) loadNext() error {
	path := filepath.Join(a.dir, journalNextFile)
	var next nextJournalKey
	if err := readJSON(path, &next); err != nil || next.Key.Verifier == "" {
		return err
	}
	signer, err := a.openSigner(next.Signer, next.Key.Verifier)
	if err != nil {
		return damaged(path, err)
	}
	if !isSealed(next.Signer) {
		if err := a.foundPlain(path); err != nil {
			return err
		}
	}
	next.Signer = signer
	a.journal.next = next
	return nil
}

// ReadJournalKeys reads the public checkpoint keys of the authority in dir, the current one first.
// Keys of an older release have no certificate, and sign for all sizes.
func ReadJournalKeys(dir string) ([]JournalKey, error) {
	_, verifier, err := readJournalKey(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	past, err := keyfile.Read(filepath.Join(dir, journalPastFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []storedJournalKey
	if err := readJSON(filepath.Join(dir, journalKeysFile), &list); err != nil {
		return nil, err
	}
	var known []JournalKey
	for _, text := range append([]string{verifier}, strings.Fields(string(past))...) {
		if slices.ContainsFunc(known, func(k JournalKey) bool { return k.Verifier == text }) {
			continue // a crash during the adoption of a key left it in both places
		}
		k := JournalKey{Verifier: text}
		if i := slices.IndexFunc(list, func(s storedJournalKey) bool { return s.Verifier == text }); i >= 0 {
			if k, err = list[i].key(); err != nil {
				return nil, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", filepath.Join(dir, journalKeysFile), err)
			}
		}
		known = append(known, k)
	}
	return known, nil
}

// readJournalKey reads the signing key: its private text, which may be sealed, and its
// verifier.
func readJournalKey(path string) (text, verifier string, err error) {
	data, err := keyfile.Read(path)
	if err != nil {
		return "", "", err
	}
	whole := strings.TrimSpace(string(data))
	end := strings.LastIndexByte(whole, '\n')
	if end < 0 {
		return "", "", damaged(path, errors.New("it has one line, want a signer and a verifier key"))
	}
	text, verifier = whole[:end], whole[end+1:]
	if _, err := note.NewVerifier(verifier); err != nil {
		return "", "", damaged(path, err)
	}
	return text, verifier, nil
}
