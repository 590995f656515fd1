package kek

import (
	"bytes"
	"encoding/json"
	"errors"

	"palyra/internal/core/reason"
	"palyra/internal/vault/passphrase"
)

// phrased is the cover of vault.kek: a passphrase, or none. An existing file keeps its passphrase;
// a new one gets the configured passphrase.
type phrased struct {
	// configured returns the passphrase of the configuration, nil for none.
	configured func() ([]byte, error)
	// given is the passphrase of Unlock, known the passphrase that last opened or encrypted the
	// file.
	given, known []byte
}

func (p *phrased) on(f *keyFile, list []byte, was *keyFile) error {
	if was != nil && was.Sealed == nil {
		return json.Unmarshal(list, &f.Keys)
	}
	phrase, err := p.phrase()
	if err != nil {
		return err
	}
	if phrase == nil {
		if was != nil {
			return noPhrase()
		}
		return json.Unmarshal(list, &f.Keys)
	}
	if was != nil && !bytes.Equal(phrase, p.known) {
		// A write must not change the passphrase.
		if _, err := opened(was, phrase); err != nil {
			return err
		}
	}
	if f.Sealed, err = passphrase.Seal(phrase, list, f.about()); err != nil {
		return err
	}
	p.known = bytes.Clone(phrase)
	return nil
}

func (p *phrased) off(f *keyFile) ([]byte, error) {
	if f.Sealed == nil {
		return json.Marshal(f.Keys)
	}
	phrase, err := p.phrase()
	if err != nil {
		return nil, err
	}
	if phrase == nil {
		return nil, noPhrase()
	}
	list, err := opened(f, phrase)
	if err == nil {
		p.known = bytes.Clone(phrase)
	}
	return list, err
}

// phrase returns the passphrase of the file; nil if unknown.
func (p *phrased) phrase() ([]byte, error) {
	if p.given != nil || p.configured == nil {
		return p.given, nil
	}
	return p.configured()
}

// try stores a passphrase if it opens the file.
func (p *phrased) try(f *file, phrase []byte) error {
	before := p.given
	p.given = bytes.Clone(phrase)
	f.seen, f.entries = [32]byte{}, nil
	k, _, err := f.read()
	if err == nil && (k == nil || k.Sealed == nil) {
		err = untaken(f.name)
	}
	if err != nil {
		p.given = before
	}
	return err
}

func opened(f *keyFile, phrase []byte) ([]byte, error) {
	list, err := f.Sealed.Open(phrase, f.about())
	if errors.Is(err, passphrase.ErrWrong) {
		return nil, reason.Errorf(reason.VaultLocked, "opening vault.kek: the passphrase is wrong, or the file is damaged").
			WithRemedy("Enter it again, or check that vault.passphrase_file contains the passphrase of vault.kek. Otherwise restore vault.kek from a backup of the state directory.")
	}
	return list, err
}

func noPhrase() error {
	return reason.Errorf(reason.VaultLocked, "vault.kek is encrypted with a passphrase, which was not entered").
		WithRemedy("Run `palyra vault unlock`, which lasts until palyrad stops. Or write the passphrase to a file with mode 0600, set vault.passphrase_file, and restart palyrad.")
}

// untaken returns the error of a passphrase for a backend that has none.
func untaken(backend string) error {
	return reason.Errorf(reason.InvalidInput, "the key of the vault is in the backend %s, which has no passphrase", backend).
		WithRemedy("No passphrase is needed; check the vault with `palyra status`.")
}
