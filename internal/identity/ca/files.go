package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// The files of an authority.
const (
	rootFile        = "root.pem"
	issuingFile     = "issuing.pem"
	notaryFile      = "notary.pem"
	notaryPastFile  = "notary-past.json"
	journalFile     = "journal.key"
	journalPastFile = "journal-past"
	// journalKeysFile has the public keys with their certificates and sizes. journalNextFile has a
	// key that is not yet the current one.
	journalKeysFile = "journal-keys.json"
	journalNextFile = "journal-next.json"
)

// keyStore stores the private keys of an authority in files of one directory. With a module, the
// files have only what the module can open.
type keyStore struct {
	dir string
	// module is nil if the keys are files.
	module Module
	// sealing is true while keys are moved into the module. plain is true if a key other than the
	// root's was found in a file.
	sealing, plain bool
}

// sweep removes the temporary file of a write that was killed before its rename. It may contain a
// key in use, including one that has since moved into a module.
func (s *keyStore) sweep() error {
	return keyfile.Sweep(s.dir, rootFile, issuingFile, notaryFile, notaryPastFile, journalFile, journalPastFile, journalKeysFile, journalNextFile)
}

// certBlock is the type of the PEM block of a certificate.
const certBlock = "CERTIFICATE"

// writePair writes key and certificate into one file, so that they always match.
func (s *keyStore) writePair(path string, p pair) error { return s.writeKeyChain(path, p.key, p.cert) }

func (s *keyStore) writeKeyChain(path string, key crypto.Signer, chain ...*x509.Certificate) error {
	text, err := s.keyText(key)
	if err != nil {
		return err
	}
	return keyfile.Write(path, slices.Concat(text, chainPEM(chain)))
}

func (s *keyStore) readPair(path string) (pair, error) {
	key, chain, err := s.readKeyChain(path)
	if err != nil {
		return pair{}, err
	}
	return pair{chain[0], key}, nil
}

// readKeyChain reads a private key and the chain of its certificate. With a module, only the root's
// key may be in the file itself, for a gateway whose other keys were moved.
func (s *keyStore) readKeyChain(path string) (crypto.Signer, []*x509.Certificate, error) {
	text, err := keyfile.Read(path)
	if err != nil {
		return nil, nil, err
	}
	key, chain, err := s.parseKeyChain(text)
	if err != nil {
		return nil, nil, damaged(path, err)
	}
	if filepath.Base(path) != rootFile && isPlain(text) {
		err = s.foundPlain(path)
	}
	return key, chain, err
}

// ReadRoot reads the root certificate of the authority in a directory. It neither requires nor
// checks the root's key.
func ReadRoot(dir string) (*x509.Certificate, error) {
	path := filepath.Join(dir, rootFile)
	text, err := keyfile.Read(path)
	if err != nil {
		return nil, err
	}
	_, certs := pem.Decode(text)
	chain, err := ParseChain(certs)
	if err != nil {
		return nil, damaged(path, err)
	}
	return chain[0], nil
}

// damaged returns the error of an unusable file. An error that already contains a remedy keeps its
// text.
func damaged(path string, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err).
		WithRemedy("Restore the file from a backup of the state directory.")
}

// isPlain reports whether a file begins with a private key.
func isPlain(text []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil && block.Type == keyfile.KeyBlock
}

func (s *keyStore) parseKeyChain(text []byte) (crypto.Signer, []*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type == certBlock {
		return nil, nil, errors.New("it does not begin with a private key in PEM")
	}
	chain, err := ParseChain(rest)
	if err != nil {
		return nil, nil, err
	}
	key, err := s.openKey(block, chain[0].PublicKey)
	if err != nil {
		return nil, nil, err
	}
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !pub.Equal(chain[0].PublicKey) {
		return nil, nil, errors.New("the key and the certificate do not belong together")
	}
	return key, chain, nil
}

// ParseChain parses one or more certificates in PEM. Any other content is an error.
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
		return nil, errors.New("it contains no certificate in PEM")
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
