package config

import (
	"bytes"
	"os"
)

// Vault says where the key is kept that encrypts all others of the vault.
type Vault struct {
	// Backend is "auto", or one of "file", "secret_service", "keychain" and "dpapi".
	Backend string `toml:"backend"`
	// PassphraseFile holds the passphrase of the backend "file" and nothing else, and
	// belongs to nobody but palyrad's user (mode 0600). "" is none.
	PassphraseFile string `toml:"passphrase_file" path:"true"`
}

// maxPassphrase is the longest passphrase in bytes.
const maxPassphrase = 1024

// Passphrase reads the passphrase; nil is none. It is read whenever it is needed, so
// that the file may be on what is attached later.
func (v Vault) Passphrase() ([]byte, error) {
	if v.PassphraseFile == "" {
		return nil, nil
	}
	return ReadPassphrase(v.PassphraseFile)
}

// ReadPassphrase reads the first and only line of a file as a passphrase.
func ReadPassphrase(path string) ([]byte, error) {
	file := privateFile{path: path, kind: "passphrase", holds: "passphrase", most: maxPassphrase + len("\r\n"), look: os.Stat}
	text, err := file.read()
	if err != nil {
		return nil, err
	}
	phrase := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(phrase) == 0:
		return nil, file.problem("is empty", file.alone())
	case bytes.ContainsAny(phrase, "\r\n\x00"):
		clear(text)
		return nil, file.problem("holds more than one line", file.alone())
	}
	return phrase, nil
}

func (k *checker) vault(v Vault) {
	k.oneOf("vault.backend", v.Backend, "auto", "file", "secret_service", "keychain", "dpapi")
	if v.PassphraseFile == "" {
		return
	}
	k.absolute("vault.passphrase_file", v.PassphraseFile)
	if v.Backend != "auto" && v.Backend != "file" {
		k.find("vault.passphrase_file", "is given, and vault.backend is "+quote(v.Backend)+", which takes no passphrase", "leave one of them out")
	}
}
