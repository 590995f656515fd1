package ca

import (
	"crypto/x509"
	"fmt"
)

// Issuing returns the certificate of the issuing intermediate.
func (a *Authority) Issuing() *x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.issuing.cert
}

// RotateIssuing creates a new issuing intermediate now. Key and certificate are in one file,
// which is replaced by one rename. Certificates issued by the old intermediate remain valid
// until they expire, because each is presented with its issuer.
func (a *Authority) RotateIssuing() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.makeIssuing(a.dir); err != nil {
		return fmt.Errorf("rotating the issuing key: %w", err)
	}
	return nil
}
