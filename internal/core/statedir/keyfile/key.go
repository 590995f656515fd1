package keyfile

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// KeyBlock is the type of the PEM block of a private key in a file.
const KeyBlock = "PRIVATE KEY"

// KeyText returns the file content of a private key: PKCS #8 in PEM.
func KeyText(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("writing the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: KeyBlock, Bytes: der}), nil
}
