package journal

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// Key signs checkpoints and exports. It is an Ed25519 key under the name of its gateway, and
// implements note.Signer.
type Key struct {
	verifier note.Verifier
	text     string
	private  crypto.Signer
}

// NewKey returns a Key with the gateway's id as its name. The id MUST be a valid C2SP key name:
// not empty, without spaces and '+'.
func NewKey(gateway string, private crypto.Signer) (*Key, error) {
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("checkpoint key: want an Ed25519 key, not %T", private.Public())
	}
	text, err := VerifierKey(gateway, public)
	if err != nil {
		return nil, err
	}
	verifier, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("checkpoint key of %q: %w", gateway, err)
	}
	return &Key{verifier: verifier, text: text, private: private}, nil
}

// VerifierKey returns the text form of a public key, name+hash+base64, for verifying signatures
// of the gateway's Key.
func VerifierKey(gateway string, public ed25519.PublicKey) (string, error) {
	text, err := note.NewEd25519VerifierKey(gateway, public)
	if err != nil {
		return "", fmt.Errorf("checkpoint key of %q: %w", gateway, err)
	}
	return text, nil
}

// Name returns the gateway's id.
func (k *Key) Name() string { return k.verifier.Name() }

// KeyHash implements note.Signer.
func (k *Key) KeyHash() uint32 { return k.verifier.KeyHash() }

// Sign implements note.Signer.
func (k *Key) Sign(msg []byte) ([]byte, error) {
	return k.private.Sign(rand.Reader, msg, crypto.Hash(0))
}

// Verifier returns the text form of the public key.
func (k *Key) Verifier() string { return k.text }

// ParseKeys parses verifier keys in their text form. Each key may sign every size.
func ParseKeys(texts ...string) (note.Verifiers, error) {
	keys := make([]SigningKey, len(texts))
	for i, text := range texts {
		keys[i].Verifier = text
	}
	return NewSigners(keys...)
}
