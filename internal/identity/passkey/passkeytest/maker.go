package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// Maker attests authenticators of a make with a separate certificate.
type Maker struct {
	// Root is the root certificate of its authenticators.
	Root *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf []byte
}

// oidAAGUID is the extension that names the make (WebAuthn Level 3, section 8.2.1).
var oidAAGUID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}

// NewMaker creates a maker with a separate root.
func NewMaker(t testing.TB) *Maker {
	t.Helper()
	rootKey := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	m := &Maker{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Palyra Test Maker Root"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	m.Root = must.Get(x509.ParseCertificate(must.Get(x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey))(t)))(t)
	// The requirements for the certificate of a packed attestation (WebAuthn Level 3, section
	// 8.2.1).
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: root.NotBefore, NotAfter: root.NotAfter, BasicConstraintsValid: true,
		Subject:         pkix.Name{Country: []string{"SE"}, Organization: []string{"Palyra Test"}, OrganizationalUnit: []string{"Authenticator Attestation"}, CommonName: "Palyra Test Authenticator"},
		ExtraExtensions: []pkix.Extension{{Id: oidAAGUID, Value: must.Get(asn1.Marshal(aaguid))(t)}},
	}
	m.leaf = must.Get(x509.CreateCertificate(rand.Reader, leaf, m.Root, &m.key.PublicKey, rootKey))(t)
	return m
}
