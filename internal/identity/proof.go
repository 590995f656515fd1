package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// proofPrefix separates a proof from other statements signed by a device's key.
const proofPrefix = "palyra proof of possession\x00"

// Prove signs a text with a device's key: SHA-256 and ASN.1 for ECDSA, or pure Ed25519.
func Prove(key crypto.Signer, what string) ([]byte, error) {
	message, how := []byte(proofPrefix+what), crypto.Hash(0)
	if _, ed := key.Public().(ed25519.PublicKey); !ed {
		digest := sha256.Sum256(message)
		message, how = digest[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, message, how)
	if err != nil {
		return nil, fmt.Errorf("proving the possession of a key: %w", err)
	}
	return signature, nil
}

// Proven reports whether a signature was created by Prove with the private key of pub, which
// must be a key that ca.RequestKey accepts.
func Proven(pub crypto.PublicKey, what string, signature []byte) bool {
	message := []byte(proofPrefix + what)
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		return ecdsa.VerifyASN1(k, digest[:], signature)
	}
	return false
}

// LoginProof returns the text that the holder of a session's key signs to get its certificate.
// It contains the authorization code of a browser login, or "" to query a login confirmed on
// another device.
func LoginProof(loginID, code string) string { return "login\x00" + loginID + "\x00" + code }
