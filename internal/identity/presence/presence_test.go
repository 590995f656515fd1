package presence_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/presence"
)

const (
	device   = "01DEVICE000000000000000000"
	approval = "01APPROVAL0000000000000000"
)

// A challenge that is used for another purpose is refused. If its own device uses it, it is
// also consumed.
func TestChallenges(t *testing.T) {
	t.Parallel()
	type use struct {
		device, approval string
		nonce            func(given [presence.NonceSize]byte) []byte
		after            time.Duration
	}
	as := func(n [presence.NonceSize]byte) []byte { return n[:] }
	for name, c := range map[string]struct {
		uses []use
		good bool // whether the last use succeeds
	}{
		"used once":                       {[]use{{device, approval, as, 0}}, true},
		"at the last moment":              {[]use{{device, approval, as, presence.Life - 1}}, true},
		"late":                            {[]use{{device, approval, as, presence.Life}}, false},
		"used twice":                      {[]use{{device, approval, as, 0}, {device, approval, as, 0}}, false},
		"of another device":               {[]use{{"01OTHER0000000000000000000", approval, as, 0}}, false},
		"after another device's try":      {[]use{{"01OTHER0000000000000000000", approval, as, 0}, {device, approval, as, 0}}, true},
		"for another approval":            {[]use{{device, "01OTHER0000000000000000000", as, 0}}, false},
		"for a key":                       {[]use{{device, "", as, 0}}, false},
		"after it was used for something": {[]use{{device, "", as, 0}, {device, approval, as, 0}}, false},
		"never given":                     {[]use{{device, approval, func([presence.NonceSize]byte) []byte { return make([]byte, presence.NonceSize) }, 0}}, false},
		"none":                            {[]use{{device, approval, func([presence.NonceSize]byte) []byte { return nil }, 0}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := presence.NewBook(time.Now)
				given := must.Get(b.Challenge(device, approval))(t)
				var err error
				for _, u := range c.uses {
					time.Sleep(u.after)
					err = b.Redeem(u.device, u.approval, u.nonce(given.Nonce))
				}
				if (err == nil) != c.good || err != nil && reason.Of(err) != reason.PresenceNotProven {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A device has at most eight challenges: a further one displaces its oldest, and no other
// device's.
func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := presence.NewBook(time.Now)
		others := must.Get(b.Challenge("01OTHER0000000000000000000", approval))(t)
		first := must.Get(b.Challenge(device, approval))(t)
		time.Sleep(time.Second)
		second := must.Get(b.Challenge(device, approval))(t)
		for range 7 {
			time.Sleep(time.Second)
			must.Get(b.Challenge(device, approval))(t)
		}
		if b.Redeem(device, approval, first.Nonce[:]) == nil {
			t.Error("the oldest of nine is good")
		}
		must.Check(t, b.Redeem(device, approval, second.Nonce[:]))
		must.Check(t, b.Redeem("01OTHER0000000000000000000", approval, others.Nonce[:]))
	})
}

// Memory is bounded over all devices, and expired challenges make room.
func TestAllChallengesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := presence.NewBook(time.Now)
		n := 0
		for ; ; n++ {
			_, err := b.Challenge(string(rune('a'+n/8%26))+string(rune(0x4e00+n/8)), approval)
			if reason.Of(err) == reason.RateLimited {
				break
			}
			must.Do(t, err)
			if n > 1<<14 {
				t.Fatal("there is no bound")
			}
		}
		time.Sleep(presence.Life)
		must.Get(b.Challenge(device, approval))(t)
	})
}

func newKey(t *testing.T) (key crypto.Signer, public []byte) {
	t.Helper()
	key = must.Get(presence.NewKey())(t)
	return key, must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)
}

func someVote() presence.Vote {
	return presence.Vote{
		Gateway: "sha256:aa", Device: device, Approval: approval, CallDigest: "sha256:bb", Allow: true, Scope: "once", Match: "exact",
		TTL: time.Minute, Uses: 3, Reason: "looked at it", Surface: "cli", Nonce: make([]byte, presence.NonceSize),
	}
}

// A proof is bound to all parts of one vote.
func TestProofBindsTheVote(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	signature := must.Get(presence.Sign(key, someVote()))(t)
	must.Check(t, presence.Verify(public, someVote(), signature))
	for name, change := range map[string]func(*presence.Vote){
		"gateway":  func(v *presence.Vote) { v.Gateway = "sha256:ab" },
		"device":   func(v *presence.Vote) { v.Device = "01OTHER0000000000000000000" },
		"approval": func(v *presence.Vote) { v.Approval = "01OTHER0000000000000000000" },
		"digest":   func(v *presence.Vote) { v.CallDigest = "sha256:bc" },
		"decision": func(v *presence.Vote) { v.Allow = false },
		"scope":    func(v *presence.Vote) { v.Scope = "session" },
		"match":    func(v *presence.Vote) { v.Match = "tool" },
		"time":     func(v *presence.Vote) { v.TTL++ },
		"uses":     func(v *presence.Vote) { v.Uses++ },
		"reason":   func(v *presence.Vote) { v.Reason = "" },
		"surface":  func(v *presence.Vote) { v.Surface = "tui" },
		"number":   func(v *presence.Vote) { v.Nonce[31] = 1 },
	} {
		v := someVote()
		change(&v)
		if err := presence.Verify(public, v, signature); reason.Of(err) != reason.PresenceNotProven {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	_, others := newKey(t)
	if err := presence.Verify(others, someVote(), signature); reason.Of(err) != reason.PresenceNotProven {
		t.Errorf("by another key: %v", err)
	}
	if err := presence.Verify(public, someVote(), nil); reason.Of(err) != reason.PresenceNotProven {
		t.Errorf("without a signature: %v", err)
	}
}

// A signature for one purpose is invalid for another, and only Ed25519 keys can sign.
func TestDomainsAndKeys(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	enrolment := presence.Enrolment{Gateway: "sha256:aa", Device: device, PublicKey: public, Nonce: make([]byte, presence.NonceSize)}
	signature := must.Get(presence.Sign(key, enrolment))(t)
	must.Check(t, presence.Verify(public, enrolment, signature))
	bare := presence.Vote{Gateway: enrolment.Gateway, Device: device, Nonce: enrolment.Nonce}
	if err := presence.Verify(public, bare, signature); err == nil {
		t.Error("the signature over a key is one over a vote")
	}
	p256 := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	if _, err := presence.Sign(p256, enrolment); err == nil {
		t.Error("a P-256 key signs")
	}
	if _, err := presence.ParsePublic(must.Get(x509.MarshalPKIXPublicKey(p256.Public()))(t)); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a P-256 key is a presence key: %v", err)
	}
}
