package passkeys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/presence"
)

// algorithms are the public key algorithms in order of preference: ES256, EdDSA, RS256. Package
// passkey supports only signatures of these.
var algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

// leastRSA is the minimum size of an RSA key in bits.
const leastRSA = 2048

// Makes restricts the authenticators that may be enrolled. The zero value permits all.
type Makes struct {
	// AAGUIDs are the permitted models, in the form of a UUID. If set, an authenticator must
	// attest its model.
	AAGUIDs []string
	// Roots are the certificates that must have signed an attestation; nil accepts an
	// authenticator's own statement.
	Roots *x509.CertPool
}

func (m Makes) attestation() protocol.ConveyancePreference {
	if len(m.AAGUIDs) == 0 {
		return protocol.PreferNoAttestation
	}
	return protocol.PreferDirectAttestation
}

// creation returns the options for a new passkey in the form for browsers (WebAuthn Level 3,
// PublicKeyCredential.parseCreationOptionsFromJSON).
func creation(party passkey.Party, handle []byte, member access.Principal, have []passkey.Passkey, nonce []byte, attestation protocol.ConveyancePreference) (string, error) {
	o := protocol.PublicKeyCredentialCreationOptions{
		RelyingParty: protocol.RelyingPartyEntity{CredentialEntity: protocol.CredentialEntity{Name: "Palyra"}, ID: party.ID},
		User: protocol.UserEntity{
			CredentialEntity: protocol.CredentialEntity{Name: member.String()}, DisplayName: member.Name, ID: protocol.URLEncodedBase64(handle),
		},
		Challenge: nonce, Timeout: int(presence.Life / time.Millisecond), Attestation: attestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationRequired,
		},
		Parameters:            parameters(),
		CredentialExcludeList: descriptors(have),
	}
	return optionsText(o)
}

// request returns the options for an assertion by one of the passkeys.
func request(party passkey.Party, have []passkey.Passkey, challenge []byte) (string, error) {
	return optionsText(protocol.PublicKeyCredentialRequestOptions{
		Challenge: challenge, Timeout: int(presence.Life / time.Millisecond), RelyingPartyID: party.ID,
		AllowedCredentials: descriptors(have), UserVerification: protocol.VerificationRequired,
	})
}

func optionsText(o any) (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("writing the options of a passkey: %w", err)
	}
	return string(text), nil
}

func parameters() (list []protocol.CredentialParameter) {
	for _, a := range algorithms {
		list = append(list, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a})
	}
	return list
}

func descriptors(have []passkey.Passkey) (list []protocol.CredentialDescriptor) {
	for _, p := range have {
		list = append(list, protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: p.ID})
	}
	return list
}

// handle returns the id under which authenticators store a member. It reveals nothing about the
// member.
func handle(gateway string, member access.Principal) []byte {
	digest := sha256.Sum256([]byte("palyra passkey user\x00" + gateway + "\x00" + member.String()))
	return digest[:]
}

// registered checks a new credential (section 7.1) and returns it as a passkey.
func (m Makes) registered(party passkey.Party, nonce []byte, credential string) (passkey.Passkey, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(credential))
	if err != nil {
		return passkey.Passkey{}, notEnrolled("it cannot be read: %s", withDetails(err))
	}
	_, err = parsed.Verify(base64.RawURLEncoding.EncodeToString(nonce), party.ID, []string{party.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode,
		false, true, true, nil, parameters(), protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return passkey.Passkey{}, notEnrolled("%s", withDetails(err))
	}
	object := parsed.Response.AttestationObject
	data := object.AuthData
	key, err := publicKey(data.AttData.CredentialPublicKey)
	if err != nil {
		return passkey.Passkey{}, err
	}
	g := data.AttData.AAGUID
	if len(g) != 16 {
		return passkey.Passkey{}, notEnrolled("its AAGUID has %d bytes", len(g))
	}
	aaguid := fmt.Sprintf("%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
	if err := m.takes(aaguid, object); err != nil {
		return passkey.Passkey{}, err
	}
	return passkey.Passkey{
		ID: slices.Clone(data.AttData.CredentialID), PublicKey: key, RPID: party.ID, AAGUID: aaguid, Attestation: object.Format,
		BackedUp: data.Flags.HasBackupState(), SignCount: data.Counter,
	}, nil
}

// takes returns an error unless authenticators of this make may be enrolled.
func (m Makes) takes(aaguid string, object protocol.AttestationObject) error {
	if len(m.AAGUIDs) == 0 {
		return nil
	}
	if object.Format == string(protocol.AttestationFormatNone) || !slices.Contains(m.AAGUIDs, aaguid) {
		return reason.Errorf(reason.PermissionDenied, "presence.aaguids does not have the make of this authenticator (AAGUID %s, attestation %q)", aaguid, object.Format).
			WithRemedy("Use an authenticator of a make that is listed, or have the operator add it to presence.aaguids.")
	}
	if m.Roots == nil {
		return nil
	}
	return m.leads(object)
}

// leads checks that the certificates of an attestation lead to one of the roots.
func (m Makes) leads(object protocol.AttestationObject) error {
	list, _ := object.AttStatement["x5c"].([]any)
	var leaf *x509.Certificate
	between := x509.NewCertPool()
	for i, der := range list {
		raw, _ := der.([]byte)
		cert, err := x509.ParseCertificate(raw)
		switch {
		case err != nil:
			return notEnrolled("a certificate of its attestation cannot be read")
		case i == 0:
			leaf = cert
		default:
			between.AddCert(cert)
		}
	}
	if leaf == nil {
		return notEnrolled("its attestation has no certificate, and presence.attestation_roots wants one")
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: m.Roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return notEnrolled("its attestation leads to no certificate of presence.attestation_roots: %v", err)
	}
	return nil
}

// publicKey converts a COSE key to a SubjectPublicKeyInfo.
func publicKey(cose []byte) ([]byte, error) {
	parsed, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return nil, notEnrolled("its public key cannot be read: %s", withDetails(err))
	}
	var key any
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		if key, err = k.ToECDSA(); err != nil {
			return nil, notEnrolled("its public key is not on its curve")
		}
	case webauthncose.OKPPublicKeyData:
		key = ed25519.PublicKey(k.XCoord)
	case webauthncose.RSAPublicKeyData:
		if key, err = rsaKey(k); err != nil {
			return nil, err
		}
	}
	if err := fit(key); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, notEnrolled("its public key is none: %v", err)
	}
	return der, nil
}

func rsaKey(k webauthncose.RSAPublicKeyData) (*rsa.PublicKey, error) {
	exponent, err := webauthncose.ParseRSAPublicKeyDataExponent(&k)
	if err != nil {
		return nil, notEnrolled("the exponent of its public key cannot be read")
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(k.Modulus), E: exponent}, nil
}

// fit refuses keys whose signatures package passkey would not accept.
func fit(key any) error {
	good := false
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		good = k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		good = len(k) == ed25519.PublicKeySize
	case *rsa.PublicKey:
		good = k.N.BitLen() >= leastRSA && k.E >= 3
	}
	if !good {
		return notEnrolled("a passkey has a key of P-256, Ed25519, or RSA of at least %d bits", leastRSA)
	}
	return nil
}

// withDetails returns an error of the library with its details.
func withDetails(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) && e.DevInfo != "" {
		return e.Details + ": " + e.DevInfo
	}
	return err.Error()
}

func notEnrolled(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.PresenceNotProven, "the passkey is not enrolled: %s", fmt.Sprintf(format, args...)).
		WithRemedy("Nothing was enrolled. Try again, on the console's own page.")
}
