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
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"palyra/internal/access"
	"palyra/internal/canonical"
)

// requestableFor is how long a denial can be turned into a request.
const requestableFor = 10 * time.Minute

// bindingHash is the digest of what an evaluation is about (draft profile, Denial Binding
// Claims): subject without its actor, resource, action, and the named members of the
// context, in the form of RFC 8785, as base64url of its SHA-256.
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
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// withoutActor is a subject without properties.act, which may stand elsewhere.
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

// signer signs what is handed to a caller and comes back. Its key lives as long as the
// process: what it signed is good for minutes, and after a restart a caller evaluates
// again.
type signer struct {
	gateway string
	key     jose.JSONWebKey
	signer  jose.Signer
}

func newSigner(gateway string) (*signer, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of bindings: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("making the key of bindings: %w", err)
	}
	return &signer{gateway: gateway, key: key, signer: s}, nil
}

func (s *signer) public() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key.Public()}}
}

// bound are the claims of a binding token.
type bound struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	// DenialExpires is access_request.expires_at, as it stands there.
	DenialExpires string   `json:"denial_expires_at"`
	Members       []string `json:"binding_context_members"`
	Hash          string   `json:"binding_hash"`
	// Caller is who was denied: nobody else can make a request of it.
	Caller access.Principal `json:"palyra_caller"`
}

func (s *signer) sign(b bound) (string, error) {
	b.Issuer, b.Audience = s.gateway, s.gateway
	text, err := canonical.Marshal(b)
	if err != nil {
		return "", err
	}
	signed, err := s.signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("signing a binding: %w", err)
	}
	return signed.CompactSerialize()
}

// open reads a binding token that this gateway signed for itself.
func (s *signer) open(token string) (b bound, err error) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return b, err
	}
	text, err := signed.Verify(s.key.Public())
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, err
	}
	if b.Issuer != s.gateway || b.Audience != s.gateway {
		return b, errors.New("it is for another gateway")
	}
	return b, nil
}

// offer adds to a denial how people can be asked (draft profile, Requestable Denial
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
		"display": map[string]string{"title": "Ask for approval", "description": "A person has to approve this call at the gateway."},
	}
	return nil
}
