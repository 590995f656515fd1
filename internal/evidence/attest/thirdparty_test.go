package attest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"testing"

	spb "github.com/in-toto/attestation/go/v1"
	sig25519 "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"palyra/internal/core/must"
	"palyra/internal/evidence/attest"
)

// exported returns the data of a third party: the envelope and the public key of the exported
// key set. Verification uses no code of this package.
func exported(t *testing.T) ([]byte, ed25519.PublicKey) {
	t.Helper()
	n := newNotary(t, newAuthority(t))
	env := mustSign(t, n, execution())
	block, _ := pem.Decode([]byte(n.KeySet().Keys[0].PublicKey))
	pub := must.Get(x509.ParsePKIXPublicKey(block.Bytes))(t)
	return env.JSON, pub.(ed25519.PublicKey)
}

func TestSigstoreAccepts(t *testing.T) {
	t.Parallel()
	env, pub := exported(t)
	key := must.Get(sig25519.LoadED25519Verifier(pub))(t)
	v := dsse.WrapVerifier(key)
	if err := v.VerifySignature(bytes.NewReader(env), nil); err != nil {
		t.Errorf("sigstore refuses the envelope: %v", err)
	}
	// Control: sigstore refuses the same envelope with another payload.
	p, payload, signature := split(t, env)
	payload = slices.Clone(payload)
	payload[10] ^= 1
	if err := v.VerifySignature(bytes.NewReader(p.with(payload, signature)), nil); err == nil {
		t.Error("sigstore accepts a changed payload: the test proves nothing")
	}
}

func TestByHand(t *testing.T) {
	t.Parallel()
	env, pub := exported(t)
	p, payload, signature := split(t, env)
	if !ed25519.Verify(pub, pae(p.PayloadType, payload), signature) {
		t.Error("the signature does not cover the encoding of the DSSE protocol")
	}
	if ed25519.Verify(pub, payload, signature) {
		t.Error("the signature covers the bare payload")
	}
}

// TestInTotoAccepts parses the statement with in-toto's own types.
func TestInTotoAccepts(t *testing.T) {
	t.Parallel()
	env, _ := exported(t)
	_, payload, _ := split(t, env)
	var s spb.Statement
	must.Do(t, protojson.Unmarshal(payload, &s))
	must.Check(t, s.Validate())
	if s.GetPredicateType() != attest.PredicateType || len(s.GetSubject()) != 2 {
		t.Errorf("predicate type %s, %d subjects", s.GetPredicateType(), len(s.GetSubject()))
	}
	if got := s.GetPredicate().GetFields()["sandbox_enforcement"].GetStringValue(); got != "strict" {
		t.Errorf("sandbox_enforcement = %q", got)
	}
	if !json.Valid(payload) {
		t.Error("not JSON")
	}
}
