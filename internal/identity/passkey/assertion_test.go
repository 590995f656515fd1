package passkey_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/passkey/passkeytest"
)

const origin = "http://palyra-k3x.localhost:7145"

var party, _ = passkey.PartyOf(origin)

func aVote() passkey.Vote {
	return passkey.Vote{
		Gateway: "sha256:" + strings.Repeat("a", 64), Voter: "user:ada", Approval: "01APPROVAL0000000000000000", Version: 3,
		CallDigest: "sha256:" + strings.Repeat("b", 64), Decision: "allow", Scope: "timeboxed", Match: "exact", TTL: time.Hour, Uses: 2,
		Reason: "fine", Surface: "console", Nonce: []byte("a number of the gateway's, 32 b."),
	}
}

func signed(t *testing.T, a *passkeytest.Authenticator, said passkey.Statement) passkey.Assertion {
	t.Helper()
	return a.Sign(t, party.ID, must.Get(passkey.Challenge(said))(t))
}

// An assertion proves one exact statement in all of its parts, and no other.
func TestAssertionIsOfOneVote(t *testing.T) {
	t.Parallel()
	a := passkeytest.New(t, origin)
	got := signed(t, a, aVote())
	if _, err := got.Verify(a.PublicKey(t), party, aVote()); err != nil {
		t.Fatalf("the control: %v", err)
	}
	for name, change := range map[string]func(*passkey.Vote){
		"gateway": func(v *passkey.Vote) { v.Gateway = "sha256:" + strings.Repeat("0", 64) },
		"voter":   func(v *passkey.Vote) { v.Voter = "user:bob" }, "approval": func(v *passkey.Vote) { v.Approval = "01APPROVAL0000000000000001" },
		"version": func(v *passkey.Vote) { v.Version++ }, "digest": func(v *passkey.Vote) { v.CallDigest = "sha256:" + strings.Repeat("c", 64) },
		"decision": func(v *passkey.Vote) { v.Decision = "deny" }, "scope": func(v *passkey.Vote) { v.Scope = "session" },
		"match": func(v *passkey.Vote) { v.Match = "tool" }, "ttl": func(v *passkey.Vote) { v.TTL++ }, "uses": func(v *passkey.Vote) { v.Uses = 0 },
		"reason": func(v *passkey.Vote) { v.Reason = "" }, "surface": func(v *passkey.Vote) { v.Surface = "cli" }, "nonce": func(v *passkey.Vote) { v.Nonce = nil },
	} {
		v := aVote()
		change(&v)
		if _, err := got.Verify(a.PublicKey(t), party, v); reason.Of(err) != reason.PresenceNotProven {
			t.Errorf("another %s: %v", name, err)
		}
	}
	change := passkey.Change{Gateway: aVote().Gateway, By: "user:ada", What: passkey.Confirm, Credential: "abc"}
	if _, err := signed(t, a, change).Verify(a.PublicKey(t), party, passkey.Change{Gateway: aVote().Gateway, By: "user:ada", What: passkey.Remove, Credential: "abc"}); err == nil {
		t.Error("a confirmation removes")
	}
}

// An assertion with a wrong origin, authenticator or user verification is refused. Each misuse
// differs from the control in one way only.
func TestAssertionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		misuse func(*passkeytest.Authenticator)
		after  func(*passkey.Assertion)
		says   string
	}{
		"the control":                {},
		"another origin":             {misuse: func(a *passkeytest.Authenticator) { a.Origin = "http://localhost:5173" }, says: "a page of http://localhost:5173"},
		"another port":               {misuse: func(a *passkeytest.Authenticator) { a.Origin = "http://palyra-k3x.localhost:9999" }, says: "a page of"},
		"another party":              {misuse: func(a *passkeytest.Authenticator) { a.RPID = "localhost" }, says: "another relying party"},
		"no user":                    {misuse: func(a *passkeytest.Authenticator) { a.Unverified = true }, says: "did not verify its user"},
		"a frame":                    {misuse: func(a *passkeytest.Authenticator) { a.CrossOrigin = true }, says: "inside a page of another site"},
		"a counter that was changed": {after: func(a *passkey.Assertion) { a.AuthenticatorData[36]++ }, says: "signature"},
		"user verified added after":  {misuse: func(a *passkeytest.Authenticator) { a.Unverified = true }, after: func(a *passkey.Assertion) { a.AuthenticatorData[32] |= 4 }, says: "signature"},
		"another ceremony": {after: func(a *passkey.Assertion) {
			a.ClientDataJSON = []byte(strings.Replace(string(a.ClientDataJSON), "webauthn.get", "webauthn.create", 1))
		}, says: "ceremony"},
		"a member twice": {after: func(a *passkey.Assertion) { a.ClientDataJSON = []byte(`{"type":"x",` + string(a.ClientDataJSON[1:])) }, says: "cannot be read"},
		"more bytes":     {after: func(a *passkey.Assertion) { a.AuthenticatorData = append(a.AuthenticatorData, 0) }, says: "does not belong to an assertion"},
		"no bytes":       {after: func(a *passkey.Assertion) { a.AuthenticatorData = nil }, says: "0 bytes"},
		"no signature":   {after: func(a *passkey.Assertion) { a.Signature = nil }, says: "signature"},
	} {
		a := passkeytest.New(t, origin)
		if c.misuse != nil {
			c.misuse(a)
		}
		got := signed(t, a, aVote())
		if c.after != nil {
			got.AuthenticatorData = slices.Clone(got.AuthenticatorData)
			c.after(&got)
		}
		_, err := got.Verify(a.PublicKey(t), party, aVote())
		if c.says == "" && err != nil || c.says != "" && (reason.Of(err) != reason.PresenceNotProven || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := passkeytest.New(t, origin)
	if _, err := signed(t, passkeytest.New(t, origin), aVote()).Verify(other.PublicKey(t), party, aVote()); err == nil {
		t.Error("another passkey's signature is taken")
	}
}

// A verifier of a journal from before a port change checks only the host of the origins.
func TestOriginsOfThePast(t *testing.T) {
	t.Parallel()
	for from, good := range map[string]bool{
		origin: true, "http://palyra-k3x.localhost:9": true, "https://a.palyra-k3x.localhost": true,
		"http://localhost:7145": false, "http://xpalyra-k3x.localhost": false, "http://palyra-k3x.localhost.example.com": false, "null": false,
	} {
		a := passkeytest.New(t, from)
		if _, err := signed(t, a, aVote()).Verify(a.PublicKey(t), passkey.Party{ID: party.ID}, aVote()); (err == nil) != good {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func TestCounterDecreased(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now uint32
		back        bool
	}{{0, 0, false}, {0, 1, false}, {5, 6, false}, {5, 5, true}, {5, 4, true}, {5, 0, true}} {
		if got := passkey.WentBack(c.before, c.now); got != c.back {
			t.Errorf("%d then %d: %v", c.before, c.now, got)
		}
	}
}
