package pairing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/pairing/spake2plus"
)

// Seen is a candidate's view of the gateway's side of the connection.
type Seen struct {
	Exporter []byte
	// Chain is the server's certificate chain, its own certificate first.
	Chain []*x509.Certificate
}

// Candidate is the machine that receives a certificate. A value is for one exchange.
type Candidate struct {
	key       *ecdsa.PrivateKey
	request   []byte
	deviceKey []byte
	nonce     []byte
	prover    *spake2plus.Prover
	digits    string
}

// NewCandidate starts an exchange for a P-256 key.
func NewCandidate(key *ecdsa.PrivateKey) (*Candidate, error) {
	text, err := identity.Request(key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	digest, err := KeySHA256(key.Public())
	if err != nil {
		return nil, err
	}
	nonce, err := random(nonceSize)
	return &Candidate{key: key, request: block.Bytes, deviceKey: digest, nonce: nonce}, err
}

// Trust checks a gateway's offer against the connection, and returns its CA. pinned is the
// SHA-256 of the CA from a QR code, or nil for a PIN: the exchange then proves that the CA
// belongs to the gateway.
func Trust(o Offer, seen Seen, pinned []byte) (*x509.Certificate, error) {
	ca, err := x509.ParseCertificate(o.CA)
	if err != nil || len(seen.Chain) == 0 {
		return nil, reason.Errorf(reason.VerificationFailed, "the peer is not a gateway: its certificate does not parse")
	}
	sum := sha256.Sum256(o.CA)
	if pinned != nil && !bytes.Equal(pinned, sum[:]) {
		return nil, impostor("its CA is not the one of the pairing code")
	}
	roots, middle := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(ca)
	for _, c := range seen.Chain[1:] {
		middle.AddCert(c)
	}
	if _, err := seen.Chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: middle, DNSName: o.ServerName}); err != nil {
		return nil, impostor("its certificate is not of the CA that it names")
	}
	key, err := KeySHA256(seen.Chain[0].PublicKey)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(key, o.ServerKey) {
		return nil, reason.Errorf(reason.VerificationFailed, "the gateway just renewed its certificate, or the connection has a man in the middle").
			WithRemedy("Try again; if it happens again, the connection has a man in the middle: inspect the network path.")
	}
	return ca, nil
}

func impostor(why string) error {
	return reason.Errorf(reason.VerificationFailed, "the server at this address is not the gateway: %s", why).
		WithRemedy("Check the address; if it is right, the connection has a man in the middle. No secret was sent.")
}

// Prove creates the first message of the exchange. It takes tens of milliseconds.
func (c *Candidate) Prove(secret, name string, o Offer, seen Seen) (Proof, error) {
	if len(seen.Exporter) != exporterSize || o.DeviceID == "" || o.Code == "" || o.Kind == "" {
		return Proof{}, reason.Errorf(reason.VerificationFailed, "the peer is not a gateway: it omits fields")
	}
	derived, err := spake2plus.Derive([]byte(secret), o.Salt, identities)
	if err != nil {
		return Proof{}, reason.Errorf(reason.VerificationFailed, "the peer is not a gateway: %w", err)
	}
	ca := sha256.Sum256(o.CA)
	b := bound{
		exporter: seen.Exporter, deviceKey: c.deviceKey, serverKey: o.ServerKey, ca: ca[:],
		deviceID: o.DeviceID, code: o.Code, kind: o.Kind, name: name, commitment: commit(c.nonce),
	}
	context, err := b.context()
	if err != nil {
		return Proof{}, err
	}
	if c.prover, err = spake2plus.NewProver(derived, context); err != nil {
		return Proof{}, err
	}
	return Proof{Code: o.Code, Share: c.prover.Share(), Commitment: b.commitment, Request: c.request, Name: name}, nil
}

// Finish checks that the gateway knows the secret, and creates the last message. On an error
// the caller MUST NOT send anything: the secret differs, or the connection has a man in the
// middle.
func (c *Candidate) Finish(a Answer) (Confirmation, error) {
	confirmation, key, err := c.prover.Finish(a.Share, a.Confirmation)
	if err != nil {
		return Confirmation{}, reason.Errorf(reason.PairingFailed, "the gateway has another secret, or the connection has a man in the middle")
	}
	if c.digits, err = comparison(key, c.nonce); err != nil {
		return Confirmation{}, err
	}
	return Confirmation{Attempt: a.Attempt, Confirmation: confirmation, Nonce: c.nonce}, nil
}

// Comparison returns the six digits that the gateway also displays; "" before Finish.
func (c *Candidate) Comparison() string { return c.digits }

// Collection creates the request for the certificate on a connection.
func (c *Candidate) Collection(exporter []byte) (Collection, error) {
	signature, err := ecdsa.SignASN1(rand.Reader, c.key, statement(exporter, c.deviceKey))
	if err != nil {
		return Collection{}, fmt.Errorf("signing for the certificate: %w", err)
	}
	return Collection{Request: c.request, Signature: signature}, nil
}

// KeySHA256 returns the fingerprint of the candidate's key, as displayed to people.
func (c *Candidate) KeySHA256() string { return fmt.Sprintf("sha256:%x", c.deviceKey) }
