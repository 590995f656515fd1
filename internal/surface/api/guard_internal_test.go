package api

import (
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

func TestRateLimitKeys(t *testing.T) {
	t.Parallel()
	agent := access.Caller{Principal: access.Agent("coder")}
	for name, c := range map[string]struct {
		who  peer
		want []string
	}{
		"nobody":               {peer{address: "192.0.2.7"}, []string{"192.0.2.7"}},
		"nobody, here":         {peer{address: "127.0.0.1"}, []string{"127.0.0.1"}},
		"known, elsewhere":     {peer{known: true, caller: agent, address: "192.0.2.7"}, []string{"agent:coder", "192.0.2.7"}},
		"known, here":          {peer{known: true, caller: agent, address: "127.0.0.1"}, []string{"agent:coder"}},
		"known, here, v6":      {peer{known: true, caller: agent, address: "::1"}, []string{"agent:coder"}},
		"nobody, v6":           {peer{address: "2001:db8::7"}, []string{"2001:db8::/64"}},
		"known, elsewhere, v6": {peer{known: true, caller: agent, address: "2001:db8::7"}, []string{"agent:coder", "2001:db8::/64"}},
		"no address":           {peer{known: true, caller: agent, address: ""}, []string{"agent:coder", ""}},
	} {
		if got := c.who.keys(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func newJournalKey(t *testing.T) *journal.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	return must.Get(journal.NewKey("gateway.example", private))(t)
}

// After a rotation of the key, the newest checkpoint may still have the previous key's
// signature.
func TestSignerOfACheckpoint(t *testing.T) {
	t.Parallel()
	before, now, other := newJournalKey(t), newJournalKey(t), newJournalKey(t)
	keys := []string{now.Verifier(), before.Verifier()}
	for _, key := range []*journal.Key{before, now} {
		cp := must.Get(journal.SignCheckpoint(key, 7, [32]byte{1}))(t)
		if got, err := signerOf(cp, keys); err != nil || got != key.Verifier() {
			t.Errorf("signed by %s, found %s, %v", key.Verifier(), got, err)
		}
	}
	cp := must.Get(journal.SignCheckpoint(other, 7, [32]byte{1}))(t)
	if got, err := signerOf(cp, keys); err == nil {
		t.Errorf("a key of nobody: %s", got)
	}
}
