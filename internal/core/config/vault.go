package config

import (
	"bytes"
	"os"
)

// Vault selects where the key is stored that encrypts all other keys of the vault (docs/vault.md).
type Vault struct {
	// Backend is `auto`, `file`, `secret_service`, `keychain` or `dpapi`. `auto` selects at the
	// first start the best one that can store and return a value: the Secret Service of the session
	// on Linux, the Keychain on macOS, DPAPI on Windows, and a file otherwise. Later a different
	// backend is refused at the start until `palyrad vault move` has moved the key.
	Backend string `toml:"backend"`
	// PassphraseFile is a file with the passphrase of the backend `file` on one line: at least 8
	// bytes, mode 0600, outside of every workspace. A new key is created under the passphrase;
	// `palyrad vault move --to file` puts an existing key under it.
	PassphraseFile string `toml:"passphrase_file" path:"true"`
}

// maxPassphrase is the maximum length of a passphrase in bytes.
const maxPassphrase = 1024

// Passphrase reads the passphrase; it returns nil without a file. It is read at each use, so
// that the file may be on a device that is attached later.
func (v Vault) Passphrase() ([]byte, error) {
	if v.PassphraseFile == "" {
		return nil, nil
	}
	return ReadPassphrase(v.PassphraseFile)
}

// ReadPassphrase reads the only line of a file as a passphrase.
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

func (v Vault) check(k *checker) {
	k.oneOf("vault.backend", v.Backend, "auto", "file", "secret_service", "keychain", "dpapi")
	if v.PassphraseFile == "" {
		return
	}
	k.absolute("vault.passphrase_file", v.PassphraseFile)
	if v.Backend != "auto" && v.Backend != "file" {
		k.find("vault.passphrase_file", "is given, and vault.backend is "+quote(v.Backend)+", which takes no passphrase", "leave one of them out")
	}
}
