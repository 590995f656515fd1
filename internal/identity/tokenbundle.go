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

// tokenFile stands in a bundle in place of a key and its certificate.
const tokenFile = "token"

// Vacant reports by its error whether dir holds a credential.
func Vacant(dir string) error {
	for _, name := range []string{keyName, keptFile, certFile, tokenFile} {
		_, err := keyfile.Read(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for a credential: %w", err)
		}
		if err == nil {
			return reason.Errorf(reason.AlreadyExists, "%s holds a credential already: %s", dir, name).WithRemedy("Name a directory that does not exist yet.")
		}
	}
	return nil
}

// WriteTokenBundle writes the bundle of an API token into dir, which must hold no
// other credential: the root and the address as in others, and the token, each with
// mode 0600.
func WriteTokenBundle(dir string, b Bundle) error {
	if b.Root == nil {
		return reason.Errorf(reason.InvalidInput, "the gateway's root certificate is not known here, and a token's bundle needs it").
			WithRemedy("Leave out --out and note the text, or connect with a credential bundle.")
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

// readTokenBundle reads the bundle of a token; fs.ErrNotExist when dir holds none.
func readTokenBundle(dir string) (Bundle, error) {
	var b Bundle
	text, err := keyfile.Read(filepath.Join(dir, tokenFile))
	if err != nil {
		return b, err
	}
	of, err := readGateway(dir)
	if err != nil {
		return b, missing(dir, err)
	}
	of.Token = strings.TrimSpace(string(text))
	return of, nil
}
