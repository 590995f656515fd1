package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// Module is hardware that stores keys, such as a TPM. It returns a key or secret as one PEM block
// that only the same hardware can use. It MUST be safe for concurrent use.
type Module interface {
	// Name returns the name of the device.
	Name() string
	// Prove returns an error with the reason if the module lacks a required operation.
	Prove() error
	// NewKey creates a P-256 key that never leaves the module. Key opens the key again, and returns
	// an error if the module cannot use it.
	NewKey() (signer crypto.Signer, text []byte, err error)
	Key(text []byte) (crypto.Signer, error)
	// Seal wraps a secret, and Unseal returns it.
	Seal(secret []byte) (text []byte, err error)
	Unseal(text []byte) (secret []byte, err error)
}

// moduleKey is a key inside a module, with the text that opens it.
type moduleKey struct {
	crypto.Signer
	text []byte
}

// newP256 creates a key in the module, or in memory if the authority has none.
func (s *keyStore) newP256() (crypto.Signer, error) {
	if s.module == nil {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	key, text, err := s.module.NewKey()
	if err != nil {
		return nil, err
	}
	return moduleKey{key, text}, nil
}

// keyText returns the file content for a key. With a module, no key is written in plain text.
func (s *keyStore) keyText(key crypto.Signer) ([]byte, error) {
	if k, ok := key.(moduleKey); ok {
		return k.text, nil
	}
	if s.module != nil {
		seed, ok := key.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("a %T cannot be sealed", key)
		}
		return s.module.Seal(seed.Seed())
	}
	return keyfile.KeyText(key)
}

// openKey opens the key in the first block of a file, and requires that it matches the public key
// that the file certifies.
func (s *keyStore) openKey(block *pem.Block, public crypto.PublicKey) (crypto.Signer, error) {
	if block.Type == keyfile.KeyBlock {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot sign", parsed)
		}
		return key, nil
	}
	if s.module == nil {
		return nil, errElsewhere
	}
	text := pem.EncodeToMemory(block)
	if _, sealed := public.(ed25519.PublicKey); !sealed {
		key, err := s.module.Key(text)
		return moduleKey{key, text}, err
	}
	seed, err := s.module.Unseal(text)
	if err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the sealed data has %d bytes; an Ed25519 seed has %d", len(seed), ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// errElsewhere is the error for a key that is in a TPM, in an authority that stores keys in
// files.
var errElsewhere = reason.Errorf(reason.ConfigInvalid, "the key is in a TPM, and keys.store is \"file\"").
	WithRemedy("Set keys.store to \"tpm\": a key cannot be exported from a TPM.")

// foundPlain refuses a key in a file if the settings require a module, unless it is about to be
// moved there.
func (s *keyStore) foundPlain(path string) error {
	if s.module == nil || s.sealing {
		s.plain = true
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "%s holds a key in plain text, and keys.store is \"tpm\"", path).
		WithRemedy("Run `palyrad keys seal`, or set keys.store to \"file\".")
}

// signerPrefix begins the private text of a checkpoint key. The rest has the form of a verifier:
// name, hash, and base64 of the algorithm's byte and the seed (golang.org/x/mod/sumdb/note).
const signerPrefix = "PRIVATE+KEY+"

// signerText returns the file content for the private text of a checkpoint key.
func (s *keyStore) signerText(signer string) (string, error) {
	if s.module == nil {
		return signer, nil
	}
	parts := strings.SplitN(strings.TrimPrefix(signer, signerPrefix), "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(parts) != 3 {
		return "", errors.New("the checkpoint key has no private text")
	}
	text, err := s.module.Seal(raw)
	return string(text), err
}

// openSigner returns the private text of a checkpoint key. It checks that the text belongs to
// the verifier.
func (s *keyStore) openSigner(text, verifier string) (signer string, err error) {
	v, err := note.NewVerifier(verifier)
	if err != nil {
		return "", err
	}
	signer = text
	if block, _ := pem.Decode([]byte(text)); block != nil {
		if signer, err = s.unsealSigner(block, verifier); err != nil {
			return "", err
		}
	}
	own, err := note.NewSigner(signer)
	if err != nil {
		return "", err
	}
	probe := []byte("palyra journal key self-test")
	if sig, err := own.Sign(probe); err != nil || !v.Verify(probe, sig) {
		return "", errors.New("the two keys do not belong together")
	}
	return signer, nil
}

func (s *keyStore) unsealSigner(block *pem.Block, verifier string) (string, error) {
	if s.module == nil {
		return "", errElsewhere
	}
	raw, err := s.module.Unseal(pem.EncodeToMemory(block))
	if err != nil {
		return "", err
	}
	name, rest, _ := strings.Cut(verifier, "+")
	hash, _, _ := strings.Cut(rest, "+")
	return signerPrefix + name + "+" + hash + "+" + base64.StdEncoding.EncodeToString(raw), nil
}

// isSealed reports whether the private text of a checkpoint key is sealed.
func isSealed(text string) bool { return !strings.HasPrefix(text, signerPrefix) }
