package logintest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"testing"

	"palyra/internal/core/must"
)

// Key is a key of the provider.
type Key struct {
	ID, Algorithm string
	signer        crypto.Signer
}

// NewKey creates a key for "ES256" or "RS256".
func NewKey(t testing.TB, algorithm string) *Key {
	t.Helper()
	k := &Key{ID: rand.Text()[:8], Algorithm: algorithm}
	if algorithm == "RS256" {
		k.signer = must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	} else {
		k.signer = must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	}
	return k
}

// Public returns the public key.
func (k *Key) Public() crypto.PublicKey { return k.signer.Public() }

// Sign creates a JWS in compact form (RFC 7515).
func (k *Key) Sign(header, claims map[string]any) string {
	text := unsigned(header, claims)
	digest := sha256.Sum256([]byte(text))
	if ec, ok := k.signer.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, ec, digest[:])
		if err != nil {
			panic(err)
		}
		return text + "." + encode(append(fill(r), fill(s)...))
	}
	signature, err := k.signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return text + "." + encode(signature)
}

// HMAC creates a JWS with a symmetric key (HS256).
func HMAC(secret []byte, header, claims map[string]any) string {
	header["alg"] = "HS256"
	text := unsigned(header, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// Unsigned creates a JWS without a signature (alg none).
func Unsigned(header, claims map[string]any) string {
	header["alg"] = "none"
	return unsigned(header, claims) + "."
}

func unsigned(header, claims map[string]any) string {
	return encode(marshal(header)) + "." + encode(marshal(claims))
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// jwk returns the public key as a JWK (RFC 7517).
func (k *Key) jwk() map[string]any {
	out := map[string]any{"kid": k.ID, "alg": k.Algorithm, "use": "sig"}
	switch pub := k.signer.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", encode(pub.N.Bytes()), encode(big.NewInt(int64(pub.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := pub.Bytes()
		if err != nil {
			panic(err)
		}
		out["kty"], out["crv"], out["x"], out["y"] = "EC", "P-256", encode(point[1:33]), encode(point[33:])
	}
	return out
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func fill(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }
