// Package keyadmin lists the gateway's own keys and replaces them. The root lives as long as the
// gateway: it is the trust anchor of devices and verifiers.
package keyadmin

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/journalkey"
)

// The names of the keys.
const (
	Root    = "root"
	Issuing = "issuing"
	Notary  = "notary"
	Journal = "journal"
)

// Key describes a key without its private part.
type Key struct {
	Name string
	// Algorithm is "ECDSA P-256" or "Ed25519".
	Algorithm string
	// SHA256 is "sha256:" and the hex digest of the SubjectPublicKeyInfo.
	SHA256 string
	// NotBefore and NotAfter are the validity of its certificate.
	NotBefore, NotAfter time.Time
	// Past is the number of previous keys; only their public parts are stored.
	Past int
}

// Rotation is the result of a key replacement.
type Rotation struct {
	Key Key
	// Was is the digest of the previous key.
	Was string
}

// Keys are the keys of one gateway. All fields but Notary are required.
type Keys struct {
	Authority *ca.Authority
	Journal   *journal.Log
	// Notary signs for calls; nil while palyrad does not run.
	Notary *attest.Notary

	mu sync.Mutex
}

// replaced is the payload of event.GatewayKeyReplaced. The first event, durable before the
// replacement, has no SHA256.
type replaced struct {
	Key       string `json:"key"`
	WasSHA256 string `json:"was_sha256"`
	SHA256    string `json:"sha256,omitempty"`
}

// List returns all keys.
func (k *Keys) List() []Key {
	notary, past := k.Authority.Notary.Key(), map[string]bool{}
	for _, p := range k.Authority.Notary.Past() {
		past[digest(p.Chain[0])] = true
	}
	delete(past, digest(notary.Chain[0])) // earlier certificates of the same key
	list := []Key{
		describe(Root, k.Authority.Root(), 0),
		describe(Issuing, k.Authority.Issuing.Certificate(), 0),
		describe(Notary, notary.Chain[0], len(past)),
	}
	if keys := k.Authority.Journal.Keys(); len(keys) > 0 && len(keys[0].Chain) > 0 {
		list = append(list, describe(Journal, keys[0].Chain[0], len(keys)-1))
	}
	return list
}

// Get returns one key.
func (k *Keys) Get(name string) (Key, error) {
	for _, key := range k.List() {
		if key.Name == name {
			return key, nil
		}
	}
	return Key{}, reason.Errorf(reason.NotFound, "the gateway has no key %q", name).WithRemedy("Use one of: %s, %s, %s.", Issuing, Notary, Journal)
}

// Rotate replaces a key. Signatures of the old key stay valid, and devices are not affected. The
// intention is journaled first, and then the result, so that every replacement is in the journal.
// If it is interrupted at any point, the gateway has either the old key or the new one.
func (k *Keys) Rotate(ctx context.Context, actor, name string) (Rotation, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, err := k.Get(name)
	if err != nil {
		return Rotation{}, err
	}
	if name == Root {
		return Rotation{}, reason.Errorf(reason.InvalidInput, "the root cannot be replaced: every device and verifier trusts it").
			WithRemedy("Rotate %s, %s or %s. If the root's key is compromised, start a new gateway in an empty state directory.", Issuing, Notary, Journal)
	}
	// The replacement completes even if its caller is cancelled.
	ctx = context.WithoutCancel(ctx)
	payload := replaced{Key: name, WasSHA256: was.SHA256}
	if err := k.Journal.Record(ctx, event.GatewayKeyReplaced, actor, name, payload); err != nil {
		return Rotation{}, fmt.Errorf("rotating the key %s: %w", name, err)
	}
	if err := k.replace(ctx, name); err != nil {
		return Rotation{}, fmt.Errorf("rotating the key %s: %w", name, err)
	}
	key, err := k.Get(name)
	if err != nil {
		return Rotation{}, err
	}
	payload.SHA256 = key.SHA256
	if err := k.Journal.Record(ctx, event.GatewayKeyReplaced, actor, name, payload); err != nil {
		return Rotation{}, fmt.Errorf("the key %s was replaced, but journaling it failed: %w", name, err)
	}
	return Rotation{Key: key, Was: was.SHA256}, nil
}

func (k *Keys) replace(ctx context.Context, name string) error {
	switch name {
	case Issuing:
		return k.Authority.Issuing.Rotate()
	case Notary:
		key, err := k.Authority.Notary.Rotate()
		if err != nil || k.Notary == nil {
			return err
		}
		return k.Notary.Use(key.Signer, key.Chain)
	default:
		_, err := journalkey.Rotate(ctx, k.Journal, k.Authority)
		return err
	}
}

func describe(name string, c *x509.Certificate, past int) Key {
	return Key{Name: name, Algorithm: algorithm(c), SHA256: digest(c), NotBefore: c.NotBefore, NotAfter: c.NotAfter, Past: past}
}

func digest(c *x509.Certificate) string { return canonical.Digest(c.RawSubjectPublicKeyInfo) }

func algorithm(c *x509.Certificate) string {
	switch key := c.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + key.Curve.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	default:
		return c.PublicKeyAlgorithm.String()
	}
}
