package authzen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
)

// requestableFor is how long an approval can be requested after a denial.
const requestableFor = 10 * time.Minute

// bindingHash is the base64url of the SHA-256 of an evaluation in the form of RFC 8785 (draft
// profile, Denial Binding Claims). It covers the subject without its actor, the resource, the
// action, and the named members of the context.
func bindingHash(e evaluation, members []string) (string, error) {
	bound := object{}
	for _, name := range members {
		if value, there := e.Context[name]; there {
			bound[name] = value
		}
	}
	text, err := canonical.Marshal(map[string]any{"subject": withoutActor(e.Subject), "resource": e.Resource, "action": e.Action, "context": bound})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return encode(sum[:]), nil
}

// withoutActor returns a subject without properties.act, because a request may send the actor
// elsewhere.
func withoutActor(subject object) object {
	var properties object
	if json.Unmarshal(subject["properties"], &properties) != nil || properties == nil {
		return subject
	}
	delete(properties, "act")
	text, err := json.Marshal(properties)
	if err != nil {
		return subject
	}
	subject = maps.Clone(subject)
	subject["properties"] = text
	return subject
}

// signer signs data that a caller receives and later returns, as a JWS in compact form (RFC 7515)
// with ES256. Its key lives as long as the process: signatures are valid for minutes, and after a
// restart a caller evaluates again. A denial is bound by a signed token, because stored denials
// would be state that strangers create. An approval is bound by its id: a signed copy would stay
// valid after a revocation.
type signer struct {
	gateway, id string
	// header is the encoded header of every token.
	header string
	key    *ecdsa.PrivateKey
}

func newSigner(gateway string) (*signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of bindings: %w", err)
	}
	s := &signer{gateway: gateway, id: rand.Text(), key: key}
	header, err := canonical.Marshal(map[string]string{"alg": "ES256", "kid": s.id, "typ": "JWT"})
	s.header = encode(header)
	return s, err
}

// public returns the key set (RFC 7517).
func (s *signer) public() (map[string]any, error) {
	point, err := s.key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	return map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "x": encode(point[1 : 1+half]), "y": encode(point[1+half:]), "kid": s.id, "alg": "ES256", "use": "sig",
	}}}, nil
}

// half is the length of each half of a signature, and of a coordinate, in bytes (RFC
// 7518, section 3.4).
const half = 32

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// bound are the claims of a binding token.
type bound struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	// DenialExpires is access_request.expires_at, in its encoded form.
	DenialExpires string   `json:"denial_expires_at"`
	Members       []string `json:"binding_context_members"`
	Hash          string   `json:"binding_hash"`
	// Caller is the denied caller: only this caller can request an approval.
	Caller access.Principal `json:"palyra_caller"`
}

func (s *signer) sign(b bound) (string, error) {
	b.Issuer, b.Audience = s.gateway, s.gateway
	text, err := canonical.Marshal(b)
	if err != nil {
		return "", err
	}
	signed := s.header + "." + encode(text)
	digest := sha256.Sum256([]byte(signed))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, digest[:])
	if err != nil {
		return "", fmt.Errorf("signing a binding: %w", err)
	}
	return signed + "." + encode(append(r.FillBytes(make([]byte, half)), v.FillBytes(make([]byte, half))...)), nil
}

// open verifies a binding token that this gateway signed for itself. A token with another header is
// refused.
func (s *signer) open(token string) (b bound, err error) {
	signed, last, _ := strings.Cut(strings.TrimPrefix(token, s.header+"."), ".")
	signature, err := base64.RawURLEncoding.Strict().DecodeString(last)
	if err != nil || len(signature) != 2*half || !strings.HasPrefix(token, s.header+".") {
		return b, errors.New("the token has another format or header")
	}
	digest := sha256.Sum256([]byte(s.header + "." + signed))
	r, v := new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])
	if !ecdsa.Verify(&s.key.PublicKey, digest[:], r, v) {
		return b, errors.New("the signature is not valid")
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(signed)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, err
	}
	if b.Issuer != s.gateway || b.Audience != s.gateway {
		return b, errors.New("the token is for another gateway")
	}
	return b, nil
}

// offer adds to a denial the data for an approval request (draft profile, Requestable Denial
// Context).
func (s *Service) offer(r *http.Request, by access.Caller, e evaluation, into map[string]any) error {
	now := s.Now().UTC()
	ends := now.Add(requestableFor).Truncate(time.Second)
	b := bound{
		IssuedAt: now.Unix(), Expires: ends.Unix(), ID: rand.Text(), DenialExpires: ends.Format(time.RFC3339), Members: relevant, Caller: by.Principal,
	}
	var err error
	if b.Hash, err = bindingHash(e, b.Members); err != nil {
		return err
	}
	token, err := s.signer.sign(b)
	if err != nil {
		return err
	}
	into["access_request"] = map[string]any{
		"endpoint": s.Origin(r) + "/access/v1/requests", "expires_at": b.DenialExpires, "binding_token": token,
		"display": map[string]string{"title": "Ask for approval", "description": "A user must approve this call at the gateway."},
	}
	return nil
}
