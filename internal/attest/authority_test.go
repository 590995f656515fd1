package attest_test

import (
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/attest"
	"palyra/internal/identity/ca"
)

// TestUnderTheGatewaysAuthority signs under a real authority through a
// renewal, a rotation and a restart, and verifies everything with what the
// last start exports.
func TestUnderTheGatewaysAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	now := epoch
	clock := func() time.Time { return now }
	start := func() (*ca.Authority, *attest.Notary) {
		t.Helper()
		a, _, err := ca.Open(dir, ca.Options{Now: clock, TrustDomain: gateway})
		if err != nil {
			t.Fatal(err)
		}
		current := a.Notary()
		c := attest.NotaryConfig{Signer: current.Signer, Chain: current.Chain, Gateway: a.TrustDomain(), Now: clock}
		for _, p := range a.PastNotaries() {
			c.Past = append(c.Past, attest.PastKey{Chain: p.Chain, RetiredAt: p.RetiredAt})
		}
		n, err := attest.NewNotary(c)
		if err != nil {
			t.Fatal(err)
		}
		return a, n
	}
	var signed []attest.Envelope
	a, n := start()
	signed = append(signed, mustSign(t, n, execution()))

	now = now.Add(ca.IssuingLife * 3 / 4)
	if err := a.Maintain(); err != nil {
		t.Fatal(err)
	}
	renewed := a.Notary()
	if err := n.Use(renewed.Signer, renewed.Chain); err != nil {
		t.Fatal(err)
	}
	signed = append(signed, mustSign(t, n, execution()))

	rotated, err := a.RotateNotary()
	if err != nil {
		t.Fatal(err)
	}
	// Between the authority's rotation and the notary's, the old key still
	// signs: that must verify later too.
	signed = append(signed, mustSign(t, n, execution()))
	if err := n.Use(rotated.Signer, rotated.Chain); err != nil {
		t.Fatal(err)
	}
	signed = append(signed, mustSign(t, n, execution()))

	now = now.Add(ca.IssuingLife * 3 / 4)
	_, n = start()
	signed = append(signed, mustSign(t, n, execution()))
	text, err := n.KeySet().JSON()
	if err != nil {
		t.Fatal(err)
	}
	set, err := attest.ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 4 || set.Keys[0].Retired || set.Keys[1].Retired || !set.Keys[2].Retired || !set.Keys[3].Retired {
		t.Errorf("keys %+v", set.Keys)
	}
	for i, env := range signed {
		if _, err := attest.Verify(env.JSON, set); err != nil {
			t.Errorf("attestation %d: %v", i, err)
		}
	}
}
