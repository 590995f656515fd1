package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// tokenFile is the file of the token. The bundle of a token contains it instead of a key and a
// certificate.
const tokenFile = "token"

// Vacant returns an error if dir holds a credential, or if it cannot be read.
func Vacant(dir string) error {
	for _, name := range []string{keyName, keptFile, certFile, tokenFile} {
		_, err := keyfile.Read(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for a credential: %w", err)
		}
		if err == nil {
			return reason.Errorf(reason.AlreadyExists, "%s already holds a credential: %s", dir, name).WithRemedy("Specify a directory that does not exist.")
		}
	}
	return nil
}

// WriteTokenBundle writes the bundle of an API token into dir, which must not hold another
// credential. The bundle has the root, the address and the token, each in a file with mode 0600.
func WriteTokenBundle(dir string, b Bundle) error {
	if b.Root == nil {
		return reason.Errorf(reason.InvalidInput, "a token bundle needs the gateway's root certificate, which is not available here").
			WithRemedy("Omit --out and copy the printed token, or connect with a credential bundle.")
	}
	if err := keyfile.MakeDir(dir); err != nil {
		return fmt.Errorf("writing the token's bundle: %w", err)
	}
	if err := Vacant(dir); err != nil {
		return err
	}
	if strings.ContainsAny(b.Address+b.ServerName+b.Token, "\r\n") {
		return reason.Errorf(reason.InvalidInput, "writing the token's bundle: address %q or server name %q has a line break", b.Address, b.ServerName)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{rootFile, certificates(b.Root)},
		{endpointFile, endpointText(b)},
		{tokenFile, []byte(b.Token + "\n")},
	} {
		if err := keyfile.Write(filepath.Join(dir, f.name), f.data); err != nil {
			return fmt.Errorf("writing the token's bundle: %w", err)
		}
	}
	return nil
}

// readTokenBundle reads the bundle of a token. It returns fs.ErrNotExist if dir does not hold one.
func readTokenBundle(dir string) (Bundle, error) {
	var b Bundle
	text, err := keyfile.Read(filepath.Join(dir, tokenFile))
	if err != nil {
		return b, err
	}
	bundle, err := readGateway(dir)
	if err != nil {
		return b, missing(dir, err)
	}
	bundle.Token = strings.TrimSpace(string(text))
	return bundle, nil
}
