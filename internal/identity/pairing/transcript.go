package pairing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/identity/pairing/spake2plus"
)

// The sizes of fields, in bytes.
const (
	exporterSize = 32
	// commitmentSize is the size of a SHA-256 commitment, nonceSize the size of the number that it
	// commits to.
	commitmentSize = 32
	nonceSize      = 32
	attemptSize    = 16
)

// exporterLabel is the label of the key that a connection exports for pairing (RFC 8446, section
// 7.5). RFC 9266's label "EXPORTER-Channel-Binding" is for protocols without a specific label.
const exporterLabel = "EXPORTER-palyra-pairing-v1"

// Exporter returns a value known only to both ends of a TLS connection: a man in the middle has
// two connections with two values. The value depends on the whole handshake, including the
// server's certificate and its proof of the key.
func Exporter(cs *tls.ConnectionState) ([]byte, error) {
	if cs == nil || cs.Version < tls.VersionTLS13 {
		return nil, reason.Errorf(reason.InvalidInput, "pairing takes TLS 1.3")
	}
	key, err := cs.ExportKeyingMaterial(exporterLabel, nil, exporterSize)
	if err != nil {
		return nil, fmt.Errorf("exporting a key of the connection: %w", err)
	}
	return key, nil
}

// KeySHA256 returns the fingerprint of a public key: SHA-256 over its SubjectPublicKeyInfo.
func KeySHA256(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encoding a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

// identities name the sides in the key derivation of SPAKE2+.
var identities = spake2plus.Identities{Prover: "palyra-pairing-candidate", Verifier: "palyra-pairing-host"}

// bound holds the values that both ends must agree on. With a man in the middle at least one
// field differs, and then neither side gets a key.
type bound struct {
	// exporter is the exported key of the connection.
	exporter []byte
	// deviceKey and serverKey are the KeySHA256 of the candidate's key and of the key in the
	// server's certificate. ca is the SHA-256 of the gateway's root certificate.
	deviceKey, serverKey, ca []byte
	deviceID, code           string
	kind                     Kind
	// name is the candidate's own name; it may be empty.
	name       string
	commitment []byte
}

// context returns an error if a field is empty: every field is required.
func (b bound) context() (spake2plus.Context, error) {
	return spake2plus.Bind("palyra pairing v1", b.exporter, b.deviceKey, b.serverKey, b.ca,
		[]byte(b.deviceID), []byte(b.code), []byte(b.kind), []byte("name="+b.name), b.commitment)
}

// commit returns the commitment to a nonce.
func commit(nonce []byte) []byte {
	sum := sha256.Sum256(append([]byte("palyra pairing commitment v1\x00"), nonce...))
	return sum[:]
}

// comparison returns the six digits that both ends display. The key is bound to the whole
// exchange. The candidate commits to the nonce before the gateway draws its share, and reveals
// it afterwards. A man in the middle who knows the secret must therefore fix one number on each
// side before computing the other, so that one attempt in a million succeeds.
func comparison(key *spake2plus.Key, nonce []byte) (string, error) {
	out, err := hkdf.Key(sha256.New, key.Bytes(), nonce, "palyra pairing comparison v1", 8)
	if err != nil {
		return "", fmt.Errorf("deriving the comparison code: %w", err)
	}
	n := binary.BigEndian.Uint64(out) % 1_000_000
	return fmt.Sprintf("%03d %03d", n/1000, n%1000), nil
}

// statement is the text that the candidate signs to collect its certificate, on any connection. It
// proves that the candidate has the key and is at the other end of this connection.
func statement(exporter []byte, deviceKey []byte) []byte {
	h := sha256.New()
	h.Write([]byte("palyra pairing collect v1\x00"))
	h.Write(exporter)
	h.Write(deviceKey)
	return h.Sum(nil)
}

// requested returns the key from a certificate request in DER. The signature of the request
// proves that the sender holds the key.
func requested(der []byte) (*ecdsa.PublicKey, error) {
	bad := reason.Errorf(reason.InvalidInput, "the certificate request is not a PKCS #10 request of a P-256 key, signed by it").
		WithRemedy("Pair with `palyra pair`, which creates one.")
	if len(der) > maxRequest {
		return nil, bad
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, bad
	}
	key, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || req.CheckSignature() != nil {
		return nil, bad
	}
	return key, nil
}

// maxRequest is the maximum size of a certificate request in bytes; a request with a P-256 key
// has 200.
const maxRequest = 4 << 10
