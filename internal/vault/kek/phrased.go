package kek

import (
	"bytes"
	"encoding/json"
	"errors"

	"palyra/internal/core/reason"
	"palyra/internal/vault/passphrase"
)

// phrased is the cover of vault.kek: a passphrase, or none. A file that exists goes on
// as it is; a new one is under the passphrase that is configured.
type phrased struct {
	// configured returns the passphrase of the configuration, nil for none.
	configured func() ([]byte, error)
	// given is what somebody has unlocked the file with, known what opened it last or
	// was put over it.
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
		// Writing is no way to change the passphrase.
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

// phrase is what the file is under; nil is not known.
func (p *phrased) phrase() ([]byte, error) {
	if p.given != nil || p.configured == nil {
		return p.given, nil
	}
	return p.configured()
}

// try keeps a passphrase that opens the file.
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
		return nil, reason.Errorf(reason.VaultLocked, "the passphrase does not open vault.kek: it is another one, or the file is damaged").
			WithRemedy("Type it again, or see that vault.passphrase_file names the passphrase under which vault.kek was made. Otherwise restore vault.kek from a backup of the state directory.")
	}
	return list, err
}

func noPhrase() error {
	return reason.Errorf(reason.VaultLocked, "vault.kek is under a passphrase, which was not given").
		WithRemedy("`palyra vault unlock` takes it until palyrad stops. Or write it into a file of mode 0600, name that in vault.passphrase_file, and start palyrad again.")
}

// untaken is a passphrase for what has none.
func untaken(backend string) error {
	return reason.Errorf(reason.InvalidInput, "the key of the vault is in the backend %s, and under no passphrase", backend).
		WithRemedy("Nothing has to be unlocked by a passphrase here; `palyra status` says how the vault is.")
}
