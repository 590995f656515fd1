package attest_test

import (
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/evidence/attest"
	"palyra/internal/identity/ca"
)

// TestUnderTheGatewaysAuthority signs with a real authority across a renewal, a rotation and a
// restart, and verifies everything with the key set of the last start.
func TestUnderTheGatewaysAuthority(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	now := epoch
	clock := func() time.Time { return now }
	start := func() (*ca.Authority, *attest.Notary) {
		t.Helper()
		a, _, err := ca.Open(dir, ca.Options{Now: clock, TrustDomain: gateway})
		must.Do(t, err)
		current := a.Notary.Key()
		c := attest.NotaryConfig{Signer: current.Signer, Chain: current.Chain, Gateway: a.TrustDomain(), Now: clock}
		for _, p := range a.Notary.Past() {
			c.Past = append(c.Past, attest.PastKey{Chain: p.Chain, RetiredAt: p.RetiredAt})
		}
		n := must.Get(attest.NewNotary(c))(t)
		return a, n
	}
	var signed []attest.Envelope
	a, n := start()
	signed = append(signed, mustSign(t, n, execution()))

	now = now.Add(ca.IssuingLife * 3 / 4)
	must.Do(t, a.Maintain())
	renewed := a.Notary.Key()
	must.Do(t, n.Use(renewed.Signer, renewed.Chain))
	signed = append(signed, mustSign(t, n, execution()))

	rotated := must.Get(a.Notary.Rotate())(t)
	// Between the authority's rotation and the notary's, the old key still signs. Those signatures
	// must also verify later.
	signed = append(signed, mustSign(t, n, execution()))
	must.Do(t, n.Use(rotated.Signer, rotated.Chain))
	signed = append(signed, mustSign(t, n, execution()))

	now = now.Add(ca.IssuingLife * 3 / 4)
	_, n = start()
	signed = append(signed, mustSign(t, n, execution()))
	text := must.Get(n.KeySet().JSON())(t)
	set := must.Get(attest.ParseKeySet(text))(t)
	if len(set.Keys) != 4 || set.Keys[0].Retired || set.Keys[1].Retired || !set.Keys[2].Retired || !set.Keys[3].Retired {
		t.Errorf("keys %+v", set.Keys)
	}
	for i, env := range signed {
		if _, err := attest.Verify(env.JSON, set); err != nil {
			t.Errorf("attestation %d: %v", i, err)
		}
	}
}
