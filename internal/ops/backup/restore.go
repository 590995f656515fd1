package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/oklog/ulid/v2"
	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// Target is where a backup is restored to, and what judges it.
type Target struct {
	// Dir becomes the state directory. It must not be there, or be empty.
	Dir string
	// Identities decrypt the backup.
	Identities []age.Identity
	// NewestHead is the newest checkpoint that is known of the journal, a signed
	// note; "" for none.
	NewestHead string
	// Verify verifies the whole store, which holds the checkpoints that are given.
	Verify func(ctx context.Context, store, gateway string, known note.Verifiers, holds ...journal.Checkpoint) error
	// Valid lists the credentials that are valid in the store.
	Valid func(ctx context.Context, store string) ([]Credential, error)
}

// Credential is something that may be used, and may have been revoked since the backup.
type Credential struct {
	// Kind is member, device or token.
	Kind, ID string
	// Whose says whose it is, and what it may do.
	Whose string
	// Revoke is the command that takes it back.
	Revoke string
}

// Result is a restore that is done.
type Result struct {
	Manifest
	Mark  Mark
	Valid []Credential
	// Config and Policies are where the settings and policies of the backup lie; ""
	// when it has none.
	Config, Policies string
}

// Restore makes a state directory of a backup. It has its name only once everything
// in it was verified and is durable; palyrad starts on it as a restored gateway.
func Restore(ctx context.Context, from string, t Target) (Result, error) {
	return restore(ctx, from, t, func(string) {})
}

// asideSuffix is what the name of a directory has more that is being restored.
const asideSuffix = ".restoring"

// restore tells reached of each step.
func restore(ctx context.Context, from string, t Target, reached func(string)) (r Result, err error) {
	if t.Dir, err = filepath.Abs(t.Dir); err != nil {
		return r, err
	}
	if err := vacant(t.Dir); err != nil {
		return r, err
	}
	file, err := os.Open(from)
	if err != nil {
		return r, reason.Errorf(reason.InvalidInput, "opening the backup: %w", err).WithRemedy("Name the file that `palyrad backup` wrote.")
	}
	defer file.Close()
	aside, lock, err := makeAside(t.Dir)
	if err != nil {
		return r, fmt.Errorf("preparing the restore: %w", err)
	}
	defer func() {
		err = errors.Join(err, lock.Release(), os.RemoveAll(aside)) // gone after it got its name
	}()
	reached("prepared")
	if r, err = t.fill(ctx, file, aside, reached); err != nil {
		return r, fmt.Errorf("restoring: %w", err)
	}
	reached("verified")
	if err := name(aside, t.Dir); err != nil {
		return r, fmt.Errorf("restoring: %w", err)
	}
	reached("named")
	r.locate(t.Dir)
	return r, keyfile.SyncDir(filepath.Dir(t.Dir))
}

// vacant refuses a directory that holds something, which a restore never replaces.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return reason.Errorf(reason.InvalidInput, "looking at %s: %w", dir, err)
	case len(entries) > 0:
		return reason.Errorf(reason.AlreadyExists, "%s is not empty", dir).
			WithRemedy("Name a new directory: a restore replaces nothing.")
	}
	return nil
}

// makeAside makes the directory that is filled, beside the one that it becomes. What
// an interrupted restore left there is removed; the lock says that one goes on.
func makeAside(dir string) (aside string, lock *statedir.Lock, err error) {
	aside = dir + asideSuffix
	if who, err := statedir.Holder(aside); err != nil || who != "" {
		return "", nil, errors.Join(err, reason.Errorf(reason.AlreadyExists, "another restore to %s goes on", dir).WithRemedy("Wait for its end."))
	}
	if err := os.RemoveAll(aside); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(filepath.Dir(aside), keyfile.DirMode); err != nil {
		return "", nil, err
	}
	if err := os.Mkdir(aside, keyfile.DirMode); err != nil {
		return "", nil, err
	}
	lock, err = statedir.Take(aside)
	return aside, lock, err
}

// name gives the directory its name, in place of an empty one.
func name(aside, dir string) error {
	if err := vacant(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(aside, dir)
}

// fill writes, verifies and marks what becomes the state directory.
func (t Target) fill(ctx context.Context, file *os.File, aside string, reached func(string)) (r Result, err error) {
	root, err := os.OpenRoot(aside)
	if err != nil {
		return r, err
	}
	defer root.Close()
	var signed []byte
	if r.Manifest, signed, err = extract(file, t.Identities, root); err != nil {
		return r, err
	}
	reached("extracted")
	if err := t.verify(ctx, aside, signed, &r); err != nil {
		return r, err
	}
	reached("judged")
	if r.Valid, err = t.Valid(ctx, statedir.Store(aside)); err != nil {
		return r, err
	}
	if err := r.leave(aside, signed); err != nil {
		return r, err
	}
	reached("marked")
	return r, syncAll(aside)
}

// verify proves what was extracted: the manifest and the head by the journal's keys,
// the keys by the CA, and the store by the head.
func (t Target) verify(ctx context.Context, aside string, signed []byte, r *Result) error {
	keys, err := ca.ReadJournalKeys(statedir.Authority(aside))
	if err != nil {
		return wrong(err)
	}
	var list []journal.SigningKey
	for _, k := range keys {
		list = append(list, journal.SigningKey{Verifier: k.Verifier, First: k.First, Last: k.Last})
	}
	known, err := journal.NewSigners(list...)
	if err != nil {
		return wrong(err)
	}
	head, err := verifyManifest(signed, r.Manifest, known)
	if err != nil {
		return wrong(err)
	}
	if err := r.checkAuthority(aside); err != nil {
		return wrong(err)
	}
	holds := []journal.Checkpoint{head}
	newest, err := t.newest(r.Manifest, known)
	if err != nil {
		return err
	}
	if newest != nil && newest.proven && newest.Size <= head.Size {
		holds = append(holds, newest.Checkpoint)
	}
	if err := t.Verify(ctx, statedir.Store(aside), r.Gateway, known, holds...); err != nil {
		return wrong(err)
	}
	r.Mark = newMark(r.Manifest, newest)
	return nil
}

func wrong(err error) error {
	return reason.Errorf(reason.VerificationFailed, "the backup does not verify: %w", err).
		WithRemedy("Nothing was restored. Take another copy of the backup, or an older one.")
}

// checkAuthority holds the CA against the manifest, whose fingerprint is what the
// operator compares, and opens it. Keys in a TPM are proven where they are used.
func (r *Result) checkAuthority(aside string) error {
	dir := statedir.Authority(aside)
	root, err := ca.ReadRoot(dir)
	if err != nil {
		return err
	}
	print := sha256.Sum256(root.Raw)
	if r.CARoot != "sha256:"+hex.EncodeToString(print[:]) {
		return errors.New("its CA is not the one that the manifest names")
	}
	if r.inTPM() {
		return nil
	}
	_, err = ca.Inspect(dir, ca.Options{})
	return err
}

// newestHead is the newest head that is known of a journal. It is proven when a key
// that the backup has signed it: after a rotation none may.
type newestHead struct {
	journal.Checkpoint
	proven bool
}

func (t Target) newest(m Manifest, known *journal.Signers) (*newestHead, error) {
	if t.NewestHead == "" {
		return nil, nil
	}
	cp, err := journal.ParseCheckpoint(t.NewestHead, m.Gateway, known)
	if err == nil {
		return &newestHead{cp, true}, nil
	}
	var unknown *note.UnverifiedNoteError
	if !errors.As(err, &unknown) {
		return nil, reason.Errorf(reason.InvalidInput, "--last-head is no checkpoint of gateway %s: %w", m.Gateway, err).WithRemedy(lastHeadRemedy)
	}
	if cp, err = journal.ParseUnverified(t.NewestHead); err != nil || cp.Origin != m.Gateway {
		return nil, reason.Errorf(reason.InvalidInput, "--last-head is no checkpoint of gateway %s", m.Gateway).WithRemedy(lastHeadRemedy)
	}
	return &newestHead{cp, false}, nil
}

func newMark(m Manifest, newest *newestHead) Mark {
	mark := Mark{ID: ulid.Make().String(), Restored: journal.Restored{
		MadeAt: m.MadeAt, Release: m.Release, RestoredAt: time.Now().UTC().Truncate(time.Second),
		Backup: journal.RestoredHead{Size: m.Size, Root: m.Root, Checkpoint: m.Checkpoint, Proven: true},
	}}
	if newest != nil {
		mark.Newest = &journal.RestoredHead{Size: newest.Size, Root: hex.EncodeToString(newest.Root[:]), Checkpoint: newest.Note, Proven: newest.proven}
	}
	return mark
}

// leave writes what the next start and the operator need beside what was restored.
func (r *Result) leave(aside string, signed []byte) error {
	for _, c := range r.Valid {
		switch c.Kind {
		case "member":
			r.Mark.Valid.Members++
		case "device":
			r.Mark.Valid.Devices++
		case "token":
			r.Mark.Valid.Tokens++
		}
	}
	text, err := json.MarshalIndent(r.Mark, "", "  ")
	if err != nil {
		return err
	}
	dir := statedir.Restored(aside)
	if err := keyfile.MakeDir(dir); err != nil {
		return err
	}
	var valid strings.Builder
	if err := WriteValid(&valid, r.Valid); err != nil {
		return err
	}
	return errors.Join(
		keyfile.Write(filepath.Join(dir, manifestName), signed),
		keyfile.Write(filepath.Join(dir, ValidFile), []byte(valid.String())),
		keyfile.Write(filepath.Join(dir, markFile), append(text, '\n')),
	)
}

// locate says where settings and policies lie.
func (r *Result) locate(dir string) {
	at := statedir.Restored(dir)
	for _, f := range r.Files {
		if f.Name == inConfig {
			r.Config = filepath.Join(at, filepath.Base(inConfig))
		}
		if strings.HasPrefix(f.Name, inPolicy) {
			r.Policies = filepath.Join(at, filepath.Base(inPolicy))
		}
	}
}

// syncAll makes the names in all directories durable; the files are.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return keyfile.SyncDir(path)
	})
}
