// Package leaks searches the files and output of tests for private keys: logs, answers, journals,
// exports. It is independent of the product: it reads the keys from their files in state
// directories and credential bundles, and searches for them everywhere else.
package leaks

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Key is a secret that a test created.
type Key struct {
	// Name is the place where the key was found.
	Name string
	// Secret is the secret part: a scalar or seed, the secret of a token, or the end of a sealed
	// key. It has at least 16 bytes.
	Secret []byte
	// Word is true for a short text that people type, such as a PIN. It is found only as a separate
	// word, and has at least 8 bytes.
	Word bool
}

// Shown returns the keys of a secret that a program displays once: the PIN or the link of a pairing
// code, or another text.
func Shown(name, text string) []Key {
	if link, err := url.Parse(text); err == nil && link.Query().Has("token") {
		text = link.Query().Get("token")
	}
	keys := []Key{{Name: name, Secret: []byte(text), Word: true}}
	if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(raw) >= 16 {
		keys = append(keys, Key{Name: name, Secret: raw})
	}
	return keys
}

// Kept returns the key of a value of a vault, which has at least 16 bytes. No file may contain it.
func Kept(name, value string) Key { return Key{Name: name, Secret: []byte(value)} }

// homes are the files that contain keys by design. Each may contain its own keys only.
var homes = []string{"root.pem", "issuing.pem", "notary.pem", "journal.key", "journal-next.json", "cert.pem", "key.pem", "key.kept", "token", vaultKey}

// vaultKey is the file of the keys that wrap the keys of the vault.
const vaultKey = "vault.kek"

var (
	wrapping = regexp.MustCompile(`"key": "([A-Za-z0-9+/]{43}=)"`)
	// noteSigner matches a signer of C2SP signed notes; its last part is base64 of one byte and
	// the seed.
	noteSigner = regexp.MustCompile(`PRIVATE\+KEY\+[^\s"]+\+[0-9a-f]{8}\+([A-Za-z0-9+/]{43,44}=*)`)
	// sealedBox matches a key under a passphrase, in key.kept.
	sealedBox = regexp.MustCompile(`"box": "([A-Za-z0-9+/]{64,}=*)"`)
	apiToken  = regexp.MustCompile(`pal_[0-9a-z]{26}_([0-9a-f]{64})`)
)

// Gather returns the keys in the files below a directory.
func Gather(dir string) ([]Key, error) {
	var keys []Key
	err := files(dir, func(path string, text []byte) error {
		if slices.Contains(homes, filepath.Base(path)) {
			keys = append(keys, keysIn(path, text)...)
		}
		return nil
	})
	return keys, err
}

// keysIn returns the keys in a text, in the forms of the product's files. Keys that a test has
// damaged are skipped.
func keysIn(name string, text []byte) (keys []Key) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if secret, err := secretOf(block); err == nil {
			keys = append(keys, Key{Name: name, Secret: secret})
		}
	}
	for _, m := range sealedBox.FindAllSubmatch(text, -1) {
		if raw, err := base64.StdEncoding.DecodeString(string(m[1])); err == nil {
			keys = append(keys, Key{Name: name, Secret: raw})
		}
	}
	for _, m := range noteSigner.FindAllSubmatch(text, -1) {
		if raw, err := base64.StdEncoding.DecodeString(string(m[1])); err == nil && len(raw) == 1+ed25519.SeedSize {
			keys = append(keys, Key{Name: name, Secret: raw[1:]})
		}
	}
	if filepath.Base(name) == vaultKey {
		for _, m := range wrapping.FindAllSubmatch(text, -1) {
			if raw, err := base64.StdEncoding.DecodeString(string(m[1])); err == nil {
				keys = append(keys, Key{Name: name, Secret: raw})
			}
		}
	}
	return append(keys, Tokens(name, text)...)
}

// Tokens returns the secrets of the API tokens in a text.
func Tokens(name string, text []byte) (keys []Key) {
	for _, m := range apiToken.FindAllSubmatch(text, -1) {
		if raw, err := hex.DecodeString(string(m[1])); err == nil {
			keys = append(keys, Key{Name: name, Secret: raw})
		}
	}
	return keys
}

// sealedEnd is the searched part of a sealed key, in bytes: its end, which is encrypted. The part
// before it is the public half.
const sealedEnd = 32

// secretOf returns the secret part of a block. It is the secret part of a private key, or the
// end of a key that a TPM sealed, which is usable with that TPM.
func secretOf(block *pem.Block) ([]byte, error) {
	switch {
	case block.Type == "PRIVATE KEY":
		return scalar(block.Bytes)
	case block.Type == "TPM KEY" && len(block.Bytes) > sealedEnd:
		return block.Bytes[len(block.Bytes)-sealedEnd:], nil
	}
	return nil, fmt.Errorf("a block of type %q holds no key", block.Type)
}

// scalar returns the secret part of a PKCS #8 key.
func scalar(der []byte) ([]byte, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return k.Seed(), nil
	case *ecdsa.PrivateKey:
		return k.Bytes()
	case *ecdh.PrivateKey:
		return k.Bytes(), nil
	}
	return nil, fmt.Errorf("palyrad does not create keys of type %T", key)
}

// files calls each for the readable regular files below a directory. It skips the reserve of the
// disk, which contains only zeros.
func files(dir string, each func(path string, text []byte) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if gone(err) || err == nil && (!d.Type().IsRegular() || strings.HasSuffix(path, "-reserve")) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if gone(err) {
			return nil
		}
		return errors.Join(err, each(path, text))
	})
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) }
