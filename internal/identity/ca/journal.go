package ca

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/identity/keyfile"
	"palyra/internal/reason"
)

// journalKeys are the journal's checkpoint keys in the text forms of
// golang.org/x/mod/sumdb/note (C2SP signed notes, Ed25519).
type journalKeys struct {
	signer   string
	verifier string
	past     []string
}

// JournalSigner returns the text of the key that signs checkpoints, for
// note.NewSigner. It is a secret.
func (a *Authority) JournalSigner() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.signer
}

// JournalVerifiers returns the public keys of checkpoints, for
// note.NewVerifier: the current one first, earlier ones after it.
func (a *Authority) JournalVerifiers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{a.journal.verifier}, a.journal.past...)
}

// RotateJournalKey makes a new checkpoint key. The old public key stays.
func (a *Authority) RotateJournalKey() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	past := slices.Insert(slices.Clone(a.journal.past), 0, a.journal.verifier)
	text := strings.Join(past, "\n") + "\n"
	if err := keyfile.Write(filepath.Join(a.dir, journalPastFile), []byte(text)); err != nil {
		return err
	}
	if err := a.makeJournalKey(a.dir); err != nil {
		return err
	}
	a.journal.past = past
	return nil
}

// makeJournalKey makes a checkpoint key named for the trust domain.
func (a *Authority) makeJournalKey(dir string) error {
	signer, verifier, err := note.GenerateKey(rand.Reader, a.domain+"/journal")
	if err != nil {
		return err
	}
	if err := keyfile.Write(filepath.Join(dir, journalFile), []byte(signer+"\n"+verifier+"\n")); err != nil {
		return err
	}
	a.journal.signer, a.journal.verifier = signer, verifier
	return nil
}

func (a *Authority) loadJournalKeys() error {
	path := filepath.Join(a.dir, journalFile)
	text, err := keyfile.Read(path)
	if err != nil {
		return err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 {
		return reason.Errorf(reason.ConfigInvalid, "%s has %d words, want a signer and a verifier key", path, len(lines))
	}
	signer, err := note.NewSigner(lines[0])
	if err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	verifier, err := note.NewVerifier(lines[1])
	if err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	probe := []byte("palyra journal key self-test")
	if sig, err := signer.Sign(probe); err != nil || !verifier.Verify(probe, sig) {
		return reason.Errorf(reason.ConfigInvalid, "%s: the two keys do not belong together", path)
	}
	a.journal = journalKeys{signer: lines[0], verifier: lines[1]}
	past, err := keyfile.Read(filepath.Join(a.dir, journalPastFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a.journal.past = slices.DeleteFunc(strings.Fields(string(past)), func(v string) bool { return v == lines[1] })
	return nil
}
