package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"palyra/internal/identity/keyfile"
	"palyra/internal/reason"
)

// The files of an authority.
const (
	rootFile        = "root.pem"
	issuingFile     = "issuing.pem"
	notaryFile      = "notary.pem"
	notaryPastFile  = "notary-past.json"
	journalFile     = "journal.key"
	journalPastFile = "journal-past"
	// journalKeysFile has the public keys with their certificates and sizes,
	// journalNextFile a key that has not taken over yet.
	journalKeysFile = "journal-keys.json"
	journalNextFile = "journal-next.json"
)

// PEM block types.
const (
	certBlock = "CERTIFICATE"
	keyBlock  = "PRIVATE KEY"
)

// writePair writes key and certificate into one file, so that they cannot get
// out of step.
func writePair(path string, p pair) error { return writeKeyChain(path, p.key, p.cert) }

func writeKeyChain(path string, key crypto.Signer, chain ...*x509.Certificate) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	return keyfile.Write(path, append(text, chainPEM(chain)...))
}

func readPair(path string) (pair, error) {
	key, chain, err := readKeyChain(path)
	if err != nil {
		return pair{}, err
	}
	return pair{chain[0], key}, nil
}

// readKeyChain reads a private key and the chain of its certificate.
func readKeyChain(path string) (crypto.Signer, []*x509.Certificate, error) {
	text, err := keyfile.Read(path)
	if err != nil {
		return nil, nil, err
	}
	key, chain, err := parseKeyChain(text)
	if err != nil {
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err).
			WithRemedy("Restore the file from a backup of the state directory.")
	}
	return key, chain, nil
}

func parseKeyChain(text []byte) (crypto.Signer, []*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, nil, errors.New("it does not begin with a private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	chain, err := ParseChain(rest)
	if err != nil {
		return nil, nil, err
	}
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !pub.Equal(chain[0].PublicKey) {
		return nil, nil, errors.New("the key and the certificate do not belong together")
	}
	return key, chain, nil
}

// ParseChain reads one or more certificates in PEM and nothing else.
func ParseChain(text []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != certBlock {
			return nil, fmt.Errorf("PEM block is %q, want %q", block.Type, certBlock)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain, text = append(chain, c), rest
	}
	if len(chain) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	return chain, nil
}

func chainPEM(chain []*x509.Certificate) []byte {
	var text []byte
	for _, c := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c.Raw})...)
	}
	return text
}
