// Package keptkey handles private keys of credential bundles (the certificate's key or the
// presence key) that are not stored in plain files. Such a key is in the keyring of the user's
// session, or sealed with a passphrase.
//
// The bundle, and not the store, records where the key is: a person who can write the state
// directory can create any certificate anyway.
package keptkey

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"

	"palyra/internal/core/reason"
	"palyra/internal/vault/passphrase"
)

// Place is the location of a key.
type Place string

// The places.
const (
	InKeyring    Place = "keyring"
	ByPassphrase Place = "passphrase"
)

// Kept is the location of a key. It is stored in the bundle's file key.kept, or presence.kept.
type Kept struct {
	Place Place `json:"place"`
	// PublicKey is the key's public half, a SubjectPublicKeyInfo (DER, RFC 5280).
	PublicKey []byte `json:"public_key"`
	// Item is the name of the item in the keyring.
	Item string `json:"item,omitempty"`
	// Sealed is the private key (PKCS #8) under a passphrase, with the public key as
	// associated data.
	Sealed *passphrase.Sealed `json:"sealed,omitempty"`
}

// Read parses the file of a key that is stored elsewhere.
func Read(text []byte) (*Kept, error) {
	var k Kept
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&k); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the file of the kept key cannot be read: %w", err)
	}
	if _, err := x509.ParsePKIXPublicKey(k.PublicKey); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the file of the kept key names no public key")
	}
	if (k.Place != InKeyring || k.Item == "" || k.Sealed != nil) && (k.Place != ByPassphrase || k.Sealed == nil) {
		return nil, reason.Errorf(reason.ConfigInvalid, "the file of the kept key does not say where the key is")
	}
	return &k, nil
}

// Text returns the text that Read parses.
func (k *Kept) Text() ([]byte, error) {
	text, err := json.MarshalIndent(k, "", "  ")
	return append(text, '\n'), err
}

// Public returns the key's public half.
func (k *Kept) Public() crypto.PublicKey {
	pub, err := x509.ParsePKIXPublicKey(k.PublicKey)
	if err != nil {
		return nil // Read has parsed it
	}
	return pub
}

// ForKeyring describes a key to be stored in a keyring. kind is "device key" or "presence key".
func ForKeyring(kind string, public []byte) *Kept {
	sum := sha256.Sum256(public)
	return &Kept{Place: InKeyring, PublicKey: public, Item: kind + " " + hex.EncodeToString(sum[:8])}
}

// Seal encrypts a private key (PKCS #8) with a passphrase.
func Seal(phrase string, public, private []byte) (*Kept, error) {
	s, err := passphrase.Seal([]byte(phrase), private, public)
	if err != nil {
		return nil, err
	}
	return &Kept{Place: ByPassphrase, PublicKey: public, Sealed: s}, nil
}

// Unseal returns the key that is encrypted with a passphrase.
func (k *Kept) Unseal(phrase string) (crypto.Signer, error) {
	private, err := k.Sealed.Open([]byte(phrase), k.PublicKey)
	switch {
	case errors.Is(err, passphrase.ErrForm):
		return nil, reason.Errorf(reason.ConfigInvalid, "the kept key is not sealed as palyra seals keys")
	case errors.Is(err, passphrase.ErrWrong):
		return nil, reason.Errorf(reason.NotConnected, "the passphrase does not unlock the key").
			WithRemedy("Try again. If it is forgotten: stop palyrad, run `palyrad operator bundle NAME --revoke-old` on its host, and start it again.")
	case err != nil:
		return nil, err
	}
	return k.Parse(private)
}

// Parse parses the private key (PKCS #8) from its location. It returns an error if the key does
// not match the public key.
func (k *Kept) Parse(private []byte) (crypto.Signer, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(private)
	if err != nil {
		return nil, reason.Errorf(reason.VerificationFailed, "the stored data is not a private key")
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, reason.Errorf(reason.VerificationFailed, "a %T cannot sign", parsed)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil || !bytes.Equal(public, k.PublicKey) {
		return nil, reason.Errorf(reason.VerificationFailed, "the stored key differs from the bundle's key")
	}
	return signer, nil
}
