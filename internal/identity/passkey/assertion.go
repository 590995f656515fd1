package passkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Assertion is the answer of an authenticator to a challenge (WebAuthn Level 3, section 5.2.2).
// It includes the inputs of the challenge other than the vote itself.
type Assertion struct {
	CredentialID      []byte `json:"credential_id"`
	AuthenticatorData []byte `json:"authenticator_data"`
	// ClientDataJSON is the browser's output, byte for byte.
	ClientDataJSON []byte `json:"client_data_json"`
	Signature      []byte `json:"signature"`
	Nonce          []byte `json:"nonce"`
	// Version is the version of the displayed approval; 0 if the statement is not a vote.
	Version int64 `json:"version,omitempty"`
}

// The layout of authenticator data (section 6.1) and the flags that are checked.
const (
	authenticatorDataSize = 37

	flagUserPresent  = 1 << 0
	flagUserVerified = 1 << 2
	flagCredential   = 1 << 6
	flagExtensions   = 1 << 7
)

// clientData is the browser's record of a ceremony (section 5.8.1).
type clientData struct {
	Type        string `json:"type"`
	Challenge   string `json:"challenge"`
	Origin      string `json:"origin"`
	CrossOrigin bool   `json:"crossOrigin"`
	TopOrigin   string `json:"topOrigin"`
}

// Verify checks that a passkey signed a statement for a relying party, with its user verified
// (section 7.2), and returns its counter. The caller MUST check the counter with WentBack.
func (a Assertion) Verify(publicKey []byte, party Party, said Statement) (signCount uint32, err error) {
	challenge, err := Challenge(said)
	if err != nil {
		return 0, err
	}
	if err := a.checkClient(party, challenge); err != nil {
		return 0, err
	}
	if signCount, err = a.checkAuthenticator(party.ID); err != nil {
		return 0, err
	}
	return signCount, a.checkSignature(publicKey)
}

func (a Assertion) checkClient(party Party, challenge []byte) error {
	var c clientData
	if err := canonical.Read(a.ClientDataJSON, &c); err != nil {
		return refused("its client data cannot be read: %v", err)
	}
	got, err := base64.RawURLEncoding.DecodeString(c.Challenge)
	switch {
	case c.Type != "webauthn.get":
		return refused("it is of the ceremony %q", c.Type)
	case err != nil || subtle.ConstantTimeCompare(got, challenge) != 1:
		return refused("it is for something else than this")
	case !party.takes(c.Origin):
		return refused("it was given to a page of %s", c.Origin)
	case c.CrossOrigin || c.TopOrigin != "":
		return refused("it was given inside a page of another site")
	}
	return nil
}

func (a Assertion) checkAuthenticator(rpID string) (signCount uint32, err error) {
	data := a.AuthenticatorData
	if len(data) < authenticatorDataSize {
		return 0, refused("its authenticator data has %d bytes", len(data))
	}
	flags, want := data[32], sha256.Sum256([]byte(rpID))
	switch {
	case subtle.ConstantTimeCompare(data[:32], want[:]) != 1:
		return 0, refused("it is for another relying party than %s", rpID)
	case flags&flagUserPresent == 0:
		return 0, refused("the authenticator was not touched")
	case flags&flagUserVerified == 0:
		return 0, refused("the authenticator did not verify its user")
	case flags&flagCredential != 0, len(data) > authenticatorDataSize && flags&flagExtensions == 0:
		return 0, refused("its authenticator data does not belong to an assertion")
	}
	return binary.BigEndian.Uint32(data[33:37]), nil
}

func (a Assertion) checkSignature(publicKey []byte) error {
	key, err := x509.ParsePKIXPublicKey(publicKey)
	if err != nil {
		return refused("its public key cannot be read: %v", err)
	}
	client := sha256.Sum256(a.ClientDataJSON)
	signed := append(append([]byte{}, a.AuthenticatorData...), client[:]...)
	digest := sha256.Sum256(signed)
	good := false
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		good = k.Curve == elliptic.P256() && ecdsa.VerifyASN1(k, digest[:], a.Signature)
	case ed25519.PublicKey:
		good = ed25519.Verify(k, signed, a.Signature)
	case *rsa.PublicKey:
		good = rsa.VerifyPKCS1v15(k, crypto.SHA256, digest[:], a.Signature) == nil
	default:
		return refused("a passkey has no key like %T", key)
	}
	if !good {
		return refused("its signature is not the passkey's")
	}
	return nil
}

// WentBack reports whether a counter did not increase, which indicates a possible copy of the
// authenticator (section 6.1.1). An authenticator without a counter always sends 0.
func WentBack(before, now uint32) bool { return now <= before && (now != 0 || before != 0) }

func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.PresenceNotProven, "the passkey's proof is refused: %s", fmt.Sprintf(format, args...)).
		WithRemedy("Nothing was voted or changed. Try again.")
}
