package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/exec/skill"
)

// files stores the packages, each in a file named by its digest. Hidden files belong to uploads
// and interrupted writes.
type files struct{ dir string }

func (f files) path(digest string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(digest, "sha256:")+skill.Extension)
}

// put writes a package. The file gets its name only after it is complete and durable.
func (f files) put(digest string, data []byte) error {
	if err := keyfile.Write(f.path(digest), data); err != nil {
		return fmt.Errorf("storing the package: %w", err)
	}
	return nil
}

func (f files) remove(digest string) error {
	if err := os.Remove(f.path(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the package: %w", err)
	}
	return keyfile.SyncDir(f.dir)
}

// size returns the size of a package's file in bytes, 0 if it does not exist.
func (f files) size(digest string) int64 {
	info, err := os.Lstat(f.path(digest))
	if err != nil {
		return 0
	}
	return info.Size()
}

// copy copies the file of a package, which must be a regular file.
func (f files) copy(digest string, to io.Writer) error {
	path := f.path(digest)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("the package does not exist")
	case err != nil:
		return fmt.Errorf("reading the package: %w", err)
	case !info.Mode().IsRegular():
		return damaged("the package is not a regular file")
	case info.Size() > skill.MaxPackage:
		return damaged("the package has %d bytes; the limit is %d", info.Size(), skill.MaxPackage)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// One extra byte: a file that grew in the meantime gets another digest.
	if _, err := io.Copy(to, io.LimitReader(file, info.Size()+1)); err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	return nil
}

// read returns a package whose bytes match the digest.
func (f files) read(digest string) ([]byte, error) {
	var data bytes.Buffer
	sum := sha256.New()
	if err := f.copy(digest, io.MultiWriter(sum, &data)); err != nil {
		return nil, err
	}
	return data.Bytes(), compare(digest, sum.Sum(nil))
}

// check compares the digest of a package without keeping its content.
func (f files) check(digest string) error {
	sum := sha256.New()
	if err := f.copy(digest, sum); err != nil {
		return err
	}
	return compare(digest, sum.Sum(nil))
}

func compare(digest string, sum []byte) error {
	if is := "sha256:" + hex.EncodeToString(sum); is != digest {
		return damaged("the package was changed: its file has the digest %s, but %s was installed", is, digest)
	}
	return nil
}

// damaged returns the error for a package or a row that differs from the installation.
func damaged(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.VerificationFailed, format, args...)
}

// sweep removes files without a version: the remains of an interrupted install, removal or
// upload.
func (f files) sweep(keep []string) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("reading the directory of packages: %w", err)
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), skill.Extension)
		used := slices.ContainsFunc(keep, func(digest string) bool { return filepath.Base(f.path(digest)) == e.Name() })
		if !ours || used || e.IsDir() {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sweeping the directory of packages: %w", err)
		}
	}
	return nil
}
