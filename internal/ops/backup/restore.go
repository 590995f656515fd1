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

// Target is the destination of a restore, with its verification.
type Target struct {
	// Dir becomes the state directory. It must not exist, or be empty.
	Dir string
	// Identities decrypt the backup.
	Identities []age.Identity
	// NewestHead is the newest known checkpoint of the journal, a signed note; "" for none.
	NewestHead string
	// Verify verifies the whole store, including the given checkpoints.
	Verify func(ctx context.Context, store, gateway string, known note.Verifiers, holds ...journal.Checkpoint) error
	// Valid lists the credentials that are valid in the store.
	Valid func(ctx context.Context, store string) ([]Credential, error)
}

// Credential is a valid credential that may have been revoked since the backup.
type Credential struct {
	// Kind is member, device or token.
	Kind, ID string
	// Whose describes its owner and permissions.
	Whose string
	// Revoke is the command that revokes it.
	Revoke string
}

// Result is the result of a restore.
type Result struct {
	Manifest
	Mark  Mark
	Valid []Credential
	// Config and Policies are the locations of the settings and policies of the backup; "" if it
	// has none.
	Config, Policies string
}

// Restore restores a state directory from a backup. The directory gets its name only once
// everything in it was verified and is durable; palyrad then starts on it as a restored
// gateway.
func Restore(ctx context.Context, from string, t Target) (Result, error) {
	return restore(ctx, from, t, func(string) {})
}

// asideSuffix is the suffix of the directory during a restore.
const asideSuffix = ".restoring"

// restore calls reached at each step.
func restore(ctx context.Context, from string, t Target, reached func(string)) (r Result, err error) {
	if t.Dir, err = filepath.Abs(t.Dir); err != nil {
		return r, err
	}
	if err := vacant(t.Dir); err != nil {
		return r, err
	}
	file, err := os.Open(from)
	if err != nil {
		return r, reason.Errorf(reason.InvalidInput, "opening the backup: %w", err).WithRemedy("Specify a file that `palyrad backup` wrote.")
	}
	defer file.Close()
	aside, lock, err := makeAside(t.Dir)
	if err != nil {
		return r, fmt.Errorf("preparing the restore: %w", err)
	}
	defer func() {
		err = errors.Join(err, lock.Release(), os.RemoveAll(aside)) // has no effect after the rename
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

// vacant refuses a directory that is not empty, because a restore replaces nothing.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return reason.Errorf(reason.InvalidInput, "reading %s: %w", dir, err)
	case len(entries) > 0:
		return reason.Errorf(reason.AlreadyExists, "%s is not empty", dir).
			WithRemedy("Specify a new directory: a restore replaces nothing.")
	}
	return nil
}

// makeAside creates the directory to fill, next to its final path. It removes the directory of an
// interrupted restore; the lock protects an active one.
func makeAside(dir string) (aside string, lock *statedir.Lock, err error) {
	aside = dir + asideSuffix
	if who, err := statedir.Holder(aside); err != nil || who != "" {
		return "", nil, errors.Join(err, reason.Errorf(reason.AlreadyExists, "another restore to %s is in progress", dir).WithRemedy("Wait for its end."))
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

// name renames the directory to its final path, replacing an empty one.
func name(aside, dir string) error {
	if err := vacant(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(aside, dir)
}

// fill writes, verifies and marks the future state directory.
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

// verify verifies the extracted files: the manifest and the head with the journal's keys, the keys
// with the CA, and the store with the head.
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
	return reason.Errorf(reason.VerificationFailed, "verifying the backup: %w", err).
		WithRemedy("Nothing was restored. Use another copy of the backup, or an older one.")
}

// checkAuthority compares the CA with the manifest, whose fingerprint the operator checks, and
// opens it. Keys in a TPM are verified when they are used.
func (r *Result) checkAuthority(aside string) error {
	dir := statedir.Authority(aside)
	root, err := ca.ReadRoot(dir)
	if err != nil {
		return err
	}
	print := sha256.Sum256(root.Raw)
	if r.CARoot != "sha256:"+hex.EncodeToString(print[:]) {
		return errors.New("its CA does not match the manifest")
	}
	if r.inTPM() {
		return nil
	}
	_, err = ca.Inspect(dir, ca.Options{})
	return err
}

// newestHead is the newest known head of a journal. It is proven if it is signed by a key in the
// backup, which may not be the case after a rotation.
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
		return nil, reason.Errorf(reason.InvalidInput, "--last-head is not a checkpoint of gateway %s: %w", m.Gateway, err).WithRemedy(lastHeadRemedy)
	}
	if cp, err = journal.ParseUnverified(t.NewestHead); err != nil || cp.Origin != m.Gateway {
		return nil, reason.Errorf(reason.InvalidInput, "--last-head is not a checkpoint of gateway %s", m.Gateway).WithRemedy(lastHeadRemedy)
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

// leave writes additional files for the next start and the operator.
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

// locate sets the locations of settings and policies.
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

// syncAll makes the names in all directories durable; the files already are.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return keyfile.SyncDir(path)
	})
}
