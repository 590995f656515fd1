package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"filippo.io/age"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// damaged returns the error of a file that is not a valid backup.
func damaged(name string, err error) error {
	return reason.Errorf(reason.VerificationFailed, "%s is damaged or not a backup: %w", name, err).
		WithRemedy("Nothing was restored. Use another copy of the backup, or an older one.")
}

// extract writes the files of a backup below dir, each with exactly the size and digest in the
// manifest. The archive does not determine a location, a mode or a file type: unexpected entries
// are refused.
func extract(from *os.File, identities []age.Identity, dir *os.Root) (m Manifest, signed []byte, err error) {
	plain, err := age.Decrypt(from, identities...)
	var other *age.NoIdentityMatchError
	if errors.As(err, &other) {
		return m, nil, reason.Errorf(reason.InvalidInput, "%s is encrypted for another identity, or with another passphrase", from.Name()).
			WithRemedy("Specify the identity of a recipient of the backup with --identity, or its passphrase with --passphrase-file.")
	}
	if err != nil {
		// The cause quotes the file, which may be a secret instead of a backup.
		return m, nil, damaged(from.Name(), errors.New("its encryption header is invalid"))
	}
	in := tar.NewReader(plain)
	if m, signed, err = readManifest(in); err != nil {
		return m, nil, damaged(from.Name(), err)
	}
	for _, f := range m.Files {
		if err := extractFile(in, f, dir); err != nil {
			return m, nil, err.named(from.Name())
		}
	}
	if err := ended(in, plain); err != nil {
		return m, nil, damaged(from.Name(), err)
	}
	return m, signed, nil
}

// ended reads to the end of the encryption, whose last part proves completeness.
func ended(in *tar.Reader, plain io.Reader) error {
	switch h, err := in.Next(); {
	case err == nil:
		return fmt.Errorf("the entry %q is not in its manifest", h.Name)
	case !errors.Is(err, io.EOF):
		return err
	}
	rest, err := io.CopyN(io.Discard, plain, 1)
	if rest > 0 {
		return errors.New("it has data after its last entry")
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func readManifest(in *tar.Reader) (m Manifest, signed []byte, err error) {
	h, err := in.Next()
	if err != nil {
		return m, nil, err
	}
	if err := checkHeader(h, manifestName); err != nil {
		return m, nil, err
	}
	if h.Size > maxManifest {
		return m, nil, fmt.Errorf("its manifest has %d bytes, the limit is %d", h.Size, maxManifest)
	}
	if signed, err = io.ReadAll(in); err != nil {
		return m, nil, err
	}
	m, err = parseManifest(signed)
	return m, signed, err
}

// checkHeader refuses anything but the expected regular file.
func checkHeader(h *tar.Header, name string) error {
	if h.Name != name {
		return fmt.Errorf("it has the entry %q instead of %q", h.Name, name)
	}
	if h.Typeflag != tar.TypeReg || h.Linkname != "" {
		return fmt.Errorf("its entry %q is not a regular file", name)
	}
	// A sparse file can have any size in an archive of a few bytes.
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return fmt.Errorf("its entry %q is a sparse file", name)
		}
	}
	return nil
}

// fileError distinguishes a faulty archive from a faulty disk.
type fileError struct {
	archive bool
	err     error
}

func (e *fileError) named(name string) error {
	if e.archive {
		return damaged(name, e.err)
	}
	return e.err
}

func extractFile(in *tar.Reader, f File, dir *os.Root) *fileError {
	h, err := in.Next()
	if err == nil {
		err = checkHeader(h, f.Name)
	}
	if err == nil && h.Size != f.Size {
		err = fmt.Errorf("its entry %q has %d bytes, but the manifest has %d", f.Name, h.Size, f.Size)
	}
	if err != nil {
		return &fileError{true, err}
	}
	out, err := create(dir, place(f.Name))
	if err != nil {
		return &fileError{false, err}
	}
	defer out.Close()
	sum, source := sha256.New(), &noted{from: in}
	if _, err := io.Copy(io.MultiWriter(out, sum), source); err != nil {
		return &fileError{source.failed, fmt.Errorf("restoring %q: %w", f.Name, err)}
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return &fileError{true, fmt.Errorf("the content of its entry %q does not match the manifest", f.Name)}
	}
	if err := out.Sync(); err != nil {
		return &fileError{false, err}
	}
	return nil
}

// noted records that reading failed.
type noted struct {
	from   io.Reader
	failed bool
}

// Read implements io.Reader.
func (n *noted) Read(p []byte) (int, error) {
	count, err := n.from.Read(p)
	n.failed = n.failed || err != nil && !errors.Is(err, io.EOF)
	return count, err
}

// place returns the location of an entry below the restored directory. Files of the state
// directory keep their place; policies and settings are in a separate directory.
func place(name string) string {
	if below, ok := strings.CutPrefix(name, inState); ok {
		return below
	}
	return path.Join(restoredDir, strings.TrimPrefix(name, "config/"))
}

func create(dir *os.Root, name string) (*os.File, error) {
	if err := dir.MkdirAll(path.Dir(name), keyfile.DirMode); err != nil {
		return nil, err
	}
	return dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyfile.FileMode)
}
