// Package keptkey is a private key of a credential bundle that does not lie in it as a
// plain file: it is in the keyring of the user's session, or sealed with a passphrase.
package keptkey

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"palyra/internal/reason"
)

// Place is where a key is.
type Place string

// The places.
const (
	InKeyring      Place = "keyring"
	ByPassphrase   Place = "passphrase"
	leastPhrase          = 8
	maxMemoryKiB         = 1 << 20
	maxTime              = 100
	saltSize             = 16
	usualTime            = 3
	usualMemoryKiB       = 64 << 10
	usualThreads         = 4
)

// Kept says of a key where it is. It is the bundle's file key.kept.
type Kept struct {
	Place Place `json:"place"`
	// PublicKey is the key's public half, a SubjectPublicKeyInfo (DER, RFC 5280).
	PublicKey []byte `json:"public_key"`
	// Item is the name of the keyring's item.
	Item string `json:"item,omitempty"`
	// Sealed is the private key (PKCS #8) under a passphrase.
	Sealed *Sealed `json:"sealed,omitempty"`
}

// Sealed is a text under a passphrase: XChaCha20-Poly1305 with the public key as
// associated data, the key by Argon2id (RFC 9106).
type Sealed struct {
	Time      uint32 `json:"argon2id_time"`
	MemoryKiB uint32 `json:"argon2id_memory_kib"`
	Threads   uint8  `json:"argon2id_threads"`
	Salt      []byte `json:"salt"`
	Nonce     []byte `json:"nonce"`
	Box       []byte `json:"box"`
}

// Read reads the file key.kept.
func Read(text []byte) (*Kept, error) {
	var k Kept
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&k); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "key.kept cannot be read: %w", err)
	}
	if _, err := x509.ParsePKIXPublicKey(k.PublicKey); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "key.kept names no public key")
	}
	if (k.Place != InKeyring || k.Item == "" || k.Sealed != nil) && (k.Place != ByPassphrase || k.Sealed == nil) {
		return nil, reason.Errorf(reason.ConfigInvalid, "key.kept does not say where the key is")
	}
	return &k, nil
}

// Text is the form of Read.
func (k *Kept) Text() ([]byte, error) {
	text, err := json.MarshalIndent(k, "", "  ")
	return append(text, '\n'), err
}

// Public is the key's public half.
func (k *Kept) Public() crypto.PublicKey {
	pub, err := x509.ParsePKIXPublicKey(k.PublicKey)
	if err != nil {
		return nil // Read has parsed it
	}
	return pub
}

// ForKeyring is a key that goes into a keyring.
func ForKeyring(public []byte) *Kept {
	sum := sha256.Sum256(public)
	return &Kept{Place: InKeyring, PublicKey: public, Item: "device key " + hex.EncodeToString(sum[:8])}
}

// Seal keeps a private key (PKCS #8) under a passphrase.
func Seal(passphrase string, public, private []byte) (*Kept, error) {
	if len(passphrase) < leastPhrase {
		return nil, reason.Errorf(reason.InvalidInput, "a passphrase has at least %d characters", leastPhrase)
	}
	s := &Sealed{Time: usualTime, MemoryKiB: usualMemoryKiB, Threads: usualThreads, Salt: make([]byte, saltSize), Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	for _, random := range [][]byte{s.Salt, s.Nonce} {
		if _, err := io.ReadFull(rand.Reader, random); err != nil {
			return nil, err
		}
	}
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return nil, err
	}
	s.Box = aead.Seal(nil, s.Nonce, private, public)
	return &Kept{Place: ByPassphrase, PublicKey: public, Sealed: s}, nil
}

func (s *Sealed) key(passphrase string) []byte {
	return argon2.IDKey([]byte(passphrase), s.Salt, s.Time, s.MemoryKiB, s.Threads, chacha20poly1305.KeySize)
}

// Unseal returns the key that is under a passphrase.
func (k *Kept) Unseal(passphrase string) (crypto.Signer, error) {
	s := k.Sealed
	if s == nil || s.Time < 1 || s.Time > maxTime || s.Threads < 1 || s.MemoryKiB < 8 || s.MemoryKiB > maxMemoryKiB || len(s.Nonce) != chacha20poly1305.NonceSizeX {
		return nil, reason.Errorf(reason.ConfigInvalid, "key.kept is not sealed as palyra seals keys")
	}
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return nil, err
	}
	private, err := aead.Open(nil, s.Nonce, s.Box, k.PublicKey)
	if err != nil {
		return nil, reason.Errorf(reason.NotConnected, "the passphrase does not open the key").
			WithRemedy("Try again. If it is forgotten: stop palyrad, run `palyrad operator bundle NAME --revoke-old` on its host, and start it again.")
	}
	return k.Parse(private)
}

// Parse reads the private key (PKCS #8) that came back from where it was kept, and
// refuses one that is not of the public key.
func (k *Kept) Parse(private []byte) (crypto.Signer, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(private)
	if err != nil {
		return nil, reason.Errorf(reason.VerificationFailed, "what was kept is no private key")
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, reason.Errorf(reason.VerificationFailed, "a %T cannot sign", parsed)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil || !bytes.Equal(public, k.PublicKey) {
		return nil, reason.Errorf(reason.VerificationFailed, "the key that was kept is another than that of the bundle")
	}
	return signer, nil
}
