package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
)

// Written is a completed backup.
type Written struct {
	Manifest
	// Bytes is the size of the file.
	Bytes int64
	// Left are unknown files of the state directory, which are not in the backup.
	Left []string
}

// Write writes a backup of a gateway to a new file, encrypted for the recipients. The file gets its
// name only once it is complete and durable.
func Write(ctx context.Context, to string, recipients []age.Recipient, s Source) (Written, error) {
	return write(ctx, to, recipients, s, func(string) {})
}

// write calls reached at each step.
func write(ctx context.Context, to string, recipients []age.Recipient, s Source, reached func(string)) (w Written, err error) {
	if _, err := os.Lstat(to); err == nil {
		return w, reason.Errorf(reason.AlreadyExists, "%s already exists", to).WithRemedy("Name another file; a backup replaces none.")
	}
	if _, waits, err := ReadMark(s.StateDir); waits || err != nil {
		return w, errors.Join(err, reason.Errorf(reason.ConfigInvalid, "%s was restored and has not been started since", s.StateDir).
			WithRemedy("Start palyrad on it first, or keep the backup that it was restored from."))
	}
	work, err := takeScratch(s.StateDir)
	if err != nil {
		return w, fmt.Errorf("preparing a backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	reached("prepared")
	c, err := s.collect(ctx, work.dir)
	if err != nil {
		return w, fmt.Errorf("reading the files of the backup: %w", err)
	}
	defer c.clear()
	reached("collected")
	w.Left = c.left
	var signed []byte
	if w.Manifest, signed, err = s.manifest(ctx, c); err != nil {
		return w, fmt.Errorf("signing the backup: %w", err)
	}
	reached("signed")
	w.Bytes, err = writeFile(to, recipients, signed, w.Manifest, c, reached)
	if err != nil {
		return w, fmt.Errorf("writing the backup: %w", err)
	}
	return w, nil
}

func (s Source) manifest(ctx context.Context, c collected) (m Manifest, signed []byte, err error) {
	key, err := journal.ParseKey(c.authority.Journal.Signer())
	if err != nil {
		return m, nil, err
	}
	head, err := s.SignHead(ctx, c.store, key)
	if err != nil {
		return m, nil, err
	}
	files, err := c.list()
	if err != nil {
		return m, nil, err
	}
	root := sha256.Sum256(c.authority.Root().Raw)
	m = Manifest{
		Format: Format, Gateway: key.Name(), CARoot: "sha256:" + hex.EncodeToString(root[:]), Release: s.Release, MadeAt: time.Now().UTC().Truncate(time.Second),
		Size: head.Size, Root: hex.EncodeToString(head.Root[:]), Checkpoint: head.Note, Files: files, Keys: append([]Key{}, c.vault.places()...), Outside: slices.Concat([]string{}, c.vault.outside(), s.Outside),
	}
	for _, k := range s.Keys(c.authority) {
		m.Keys = append(m.Keys, Key{k.Key, k.Place, k.Detail})
	}
	signed, err = m.sign(key)
	return m, signed, err
}

// writeFile writes to a temporary name first. The file of an interrupted backup is encrypted, and
// is replaced.
func writeFile(to string, recipients []age.Recipient, signed []byte, m Manifest, c collected, reached func(string)) (size int64, err error) {
	part := to + ".part"
	if err := removed(part); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyfile.FileMode)
	if err != nil {
		return 0, reason.Errorf(reason.InvalidInput, "creating the file: %w", err).WithRemedy("Specify a file in an existing, writable directory.")
	}
	reached("made")
	err = encrypt(f, recipients, signed, m, c)
	if err == nil {
		reached("written")
		err = f.Sync()
	}
	if info, statErr := f.Stat(); statErr == nil {
		size = info.Size()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(part))
	}
	reached("synced")
	if err := os.Link(part, to); err != nil { // unlike a rename, it replaces no file
		if errors.Is(err, os.ErrExist) {
			return 0, errors.Join(err, os.Remove(part))
		}
		if err := os.Rename(part, to); err != nil { // a file system without hard links
			return 0, errors.Join(err, os.Remove(part))
		}
	} else if err := os.Remove(part); err != nil {
		return 0, err
	}
	reached("named")
	return size, keyfile.SyncDir(filepath.Dir(to))
}

func encrypt(w io.Writer, recipients []age.Recipient, signed []byte, m Manifest, c collected) error {
	sealed, err := age.Encrypt(w, recipients...)
	if err != nil {
		return err
	}
	out := tar.NewWriter(sealed)
	if err := entry(out, manifestName, int64(len(signed)), bytes.NewReader(signed)); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := c.entry(out, f); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), sealed.Close())
}

func (c collected) entry(out *tar.Writer, f File) error {
	if data, is := c.small[f.Name]; is {
		return entry(out, f.Name, f.Size, bytes.NewReader(data))
	}
	path := c.packages[f.Name]
	if f.Name == storeName {
		path = c.store
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return entry(out, f.Name, f.Size, file)
}

func entry(out *tar.Writer, name string, size int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(keyfile.FileMode), Format: tar.FormatPAX}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(out, content)
	return err
}
