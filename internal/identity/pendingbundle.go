package identity

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// WritePending writes a bundle without its certificate to the directory of a key created by
// BundleKey, with the source of the certificate. WriteBundle completes the bundle.
func WritePending(dir string, b Bundle) error {
	if strings.ContainsAny(b.Address+b.ServerName, "\r\n") {
		return reason.Errorf(reason.InvalidInput, "address %q or server name %q has a line break", b.Address, b.ServerName)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{rootFile, certificates(b.Root)},
		{endpointFile, endpointText(b)},
	} {
		if err := keyfile.Write(filepath.Join(dir, f.name), f.data); err != nil {
			return fmt.Errorf("writing credential bundle: %w", err)
		}
	}
	return nil
}

// ReadPending reads a bundle that waits for its certificate, and returns false if dir contains
// none. A complete bundle or any other file is an error. ReadPending removes temporary files of
// a killed run.
func ReadPending(dir string) (b Bundle, pending bool, err error) {
	if err := keyfile.Sweep(dir, keyName, rootFile, endpointFile, certFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, false, fmt.Errorf("looking for a credential: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("looking for a credential: %w", err)
	}
	files := map[string]bool{}
	for _, e := range entries {
		files[e.Name()] = true
	}
	switch {
	case len(files) == 0, len(files) == 1 && files[keyName]:
		return b, false, nil // the state after a run that was killed early
	case files[certFile] || files[tokenFile] || !files[keyName]:
		return b, false, reason.Errorf(reason.AlreadyExists, "%s holds a credential, or other files", dir).
			WithRemedy("Choose another name with --name, or another directory with --out; to use the existing one: `palyra context list`.")
	case !files[rootFile] || !files[endpointFile]:
		return b, false, nil
	}
	if b, err = readPending(dir); err != nil {
		return b, false, fmt.Errorf("reading a pairing that was under way: %w", err)
	}
	return b, true, nil
}

func readPending(dir string) (Bundle, error) {
	key, _, err := readCredential(filepath.Join(dir, keyName))
	if err != nil {
		return Bundle{}, err
	}
	if key == nil {
		return Bundle{}, reason.Errorf(reason.ConfigInvalid, "%s in %s is not a private key", keyName, dir)
	}
	b, err := readGateway(dir)
	b.Key = key
	return b, err
}

// RemovePending removes a bundle that never got its certificate.
func RemovePending(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, certFile)); !errors.Is(err, fs.ErrNotExist) {
		return reason.Errorf(reason.AlreadyExists, "%s holds a credential", dir)
	}
	for _, name := range []string{rootFile, endpointFile, keyName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a pairing that ended: %w", err)
		}
	}
	_ = os.Remove(dir) // the directory remains if it contains other files
	return nil
}

// FitsChain reports whether a certificate chain belongs to a key, and leads to the root.
func FitsChain(key crypto.Signer, root *x509.Certificate, chain []*x509.Certificate) bool {
	return len(chain) > 0 && isOf(chain[0], key) && chain[len(chain)-1].CheckSignatureFrom(root) == nil
}
