package release

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"palyra/internal/core/reason"
)

// Maximum sizes in bytes. A signature has at most 72 bytes, which are 96 in base64.
const (
	maxSignature = 512
	maxKey       = 8 << 10
)

// publicKey is the key of a release: ECDSA on the curve P-256.
type publicKey struct {
	file string
	key  *ecdsa.PublicKey
	der  []byte
}

// readKey reads a file with one PEM block PUBLIC KEY and nothing else.
func readKey(file string) (publicKey, error) {
	text, err := readRegular(file, maxKey)
	if err == nil {
		var k publicKey
		if k, err = parseKey(text); err == nil {
			k.file = file
			return k, nil
		}
		err = fmt.Errorf("%s: %w", file, err)
	}
	return publicKey{}, reason.Errorf(reason.InvalidInput, "reading the key of the release: %w", err).
		WithRemedy("Specify the public key that the publisher of the release gives, such as palyra.pub.")
}

func parseKey(text []byte) (publicKey, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return publicKey{}, errors.New("the file has no PEM block PUBLIC KEY")
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return publicKey{}, errors.New("the file has a private key, and the public key is required; if the private key is not for tests, keep it secret")
	case block.Type != "PUBLIC KEY":
		return publicKey{}, fmt.Errorf("the PEM block is %q, not PUBLIC KEY", block.Type)
	case len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")):
		return publicKey{}, errors.New("the file has more than the PEM block PUBLIC KEY")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return publicKey{}, fmt.Errorf("the public key is malformed: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return publicKey{}, fmt.Errorf("the key is %s, and releases are signed with ECDSA on P-256", kind(parsed))
	}
	return publicKey{key: key, der: block.Bytes}, nil
}

// kind names the algorithm of a key.
func kind(key any) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA on " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return "RSA"
	}
	return fmt.Sprintf("%T", key)
}

// fingerprint returns the SHA-256 of the key in DER form. `openssl pkey -pubin -outform DER`
// writes that form.
func (k publicKey) fingerprint() string { return digestOf(k.der) }

// verify checks the signature of a text: ECDSA over its SHA-256, in ASN.1 DER and then base64.
func (k publicKey) verify(signatureFile string, text []byte) error {
	encoded, err := readRegular(signatureFile, maxSignature)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it is not signed: %s does not exist", signatureFile)
	}
	if err != nil {
		return fmt.Errorf("reading its signature: %w", err)
	}
	encoded = bytes.TrimSpace(encoded)
	if len(encoded) == 0 {
		return fmt.Errorf("it is not signed: %s is empty", signatureFile)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(string(encoded))
	if err != nil {
		return fmt.Errorf("its signature %s is not base64", signatureFile)
	}
	digest := sha256.Sum256(text)
	if !ecdsa.VerifyASN1(k.key, digest[:], signature) {
		return fmt.Errorf("%s is not a signature of it by the key %s (%s)", signatureFile, k.file, k.fingerprint())
	}
	return nil
}
