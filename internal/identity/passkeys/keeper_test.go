package passkeys_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/identitytest"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/passkey/passkeytest"
	"palyra/internal/identity/passkeys"
)

const (
	origin  = "http://palyra-k3x.localhost:7145"
	gateway = "sha256:gateway"
)

var ada, bob, cyd = access.User("ada"), access.User("bob"), access.User("cyd")

// members are ada, an owner, and bob and cyd, admins; ada created bob.
type members struct{}

func (members) Active(p access.Principal) (access.Member, bool) {
	role := access.RoleAdmin
	if p == ada {
		role = access.RoleOwner
	}
	return access.Member{Principal: p, Roles: []access.Role{role}}, p == ada || p == bob || p == cyd
}

// world is a keeper with its dependencies.
type world struct {
	*passkeys.Keeper
	store  *identitytest.Store
	agents bool
	config passkeys.Config
	now    time.Time
}

func newWorld(t *testing.T, change ...func(*passkeys.Config)) *world {
	t.Helper()
	w := &world{store: identitytest.NewStore(t), now: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)}
	w.config = passkeys.Config{
		Store: w.store, Members: members{}, Gateway: gateway, Now: func() time.Time { return w.now },
		Independent:    func(a, b access.Principal) bool { return a != b && a != bob && b != bob },
		AgentConnected: func(context.Context) (bool, error) { return w.agents, nil },
	}
	for _, fn := range change {
		fn(&w.config)
	}
	w.restarts(t, origin)
	return w
}

// restarts creates a new keeper from the store, and a console at an origin.
func (w *world) restarts(t *testing.T, origin string) {
	t.Helper()
	w.Keeper = must.Get(passkeys.New(t.Context(), w.config))(t)
	must.Do(t, w.At(origin))
}

// enroll adds a new passkey for a member.
func (w *world) enroll(t *testing.T, member access.Principal) (*passkeytest.Authenticator, passkey.Passkey) {
	t.Helper()
	a := passkeytest.New(t, origin)
	p := must.Get(w.tries(t, member, a))(t)
	return a, p
}

func (w *world) tries(t *testing.T, member access.Principal, a *passkeytest.Authenticator) (passkey.Passkey, error) {
	t.Helper()
	c := must.Get(w.Begin(member))(t)
	return w.Finish(t.Context(), member, "key of "+member.Name, c.Nonce, a.Create(t, c.Options))
}

// word returns a member's approval of a change, proven with a passkey.
func (w *world) word(t *testing.T, by access.Principal, a *passkeytest.Authenticator, what string, id []byte) passkey.Word {
	t.Helper()
	c := must.Get(w.Challenge(by, passkey.ChangePurpose(what, id), func(nonce []byte) passkey.Statement { return w.ChangeOf(by, what, id, nonce) }))(t)
	proof := a.Get(t, c.Options)
	proof.Nonce = c.Nonce
	return passkey.Word{By: by, Proof: &proof}
}

// A member's first passkey is active at once only if no agent has ever connected.
func TestFirstPasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, p := w.enroll(t, ada); p.Waits {
		t.Error("the first one waits, before any agent")
	}
	if _, p := w.enroll(t, ada); !p.Waits {
		t.Error("a second one counts at once")
	}
	w.agents = true
	thief, p := w.enroll(t, bob)
	if !p.Waits {
		t.Fatal("a first one counts at once, with an agent connected: a stolen session made it")
	}
	_, err := w.Challenge(bob, passkey.VotePurpose("a"), nil)
	reasontest.Want(t, "a challenge for one that waits", err, reason.PresenceNotProven)
	_, err = w.Confirm(t.Context(), passkey.Word{By: bob}, p.ID)
	reasontest.Want(t, "confirmed by its own session", err, reason.PermissionDenied)
	_, err = w.Confirm(t.Context(), passkey.Word{By: cyd}, p.ID)
	reasontest.Want(t, "a first one confirmed by another admin", err, reason.PermissionDenied)
	if got := must.Get(w.Confirm(t.Context(), passkey.Word{By: access.User("local"), Host: true}, p.ID))(t); !got.Counts() {
		t.Error("the host's word does not count")
	}
	must.Do(t, w.votes(t, bob, thief, "01A"))
	_, err = w.Confirm(t.Context(), passkey.Word{By: ada, Host: true}, p.ID)
	reasontest.Want(t, "confirmed twice", err, reason.AlreadyExists)
	want := []event.Code{event.PasskeyEnrolled, event.PasskeyEnrolled, event.PasskeyEnrolled, event.PasskeyConfirmed}
	if got := w.store.Codes(); !slices.Equal(got, want) {
		t.Errorf("journaled: %v", got)
	}
	_, err = w.Begin(access.Agent("claude"))
	reasontest.Want(t, "an agent", err, reason.PermissionDenied)
}

// votes proves a vote of a member.
func (w *world) votes(t *testing.T, member access.Principal, a *passkeytest.Authenticator, approval string) error {
	t.Helper()
	said := func(nonce []byte) passkey.Statement {
		return passkey.Vote{Gateway: gateway, Voter: member.String(), Approval: approval, Decision: "allow", Nonce: nonce}
	}
	c := must.Get(w.Challenge(member, passkey.VotePurpose(approval), said))(t)
	proof := a.Get(t, c.Options)
	proof.Nonce = c.Nonce
	_, err := w.Prove(t.Context(), member, passkey.VotePurpose(approval), proof, said(c.Nonce))
	return err
}

// A further passkey requires confirmation by an existing passkey of the member, another admin,
// or the host.
func TestLaterPasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, _ := w.enroll(t, ada)
	bobs, _ := w.enroll(t, bob)
	w.agents = true
	second, p := w.enroll(t, ada)
	for name, word := range map[string]passkey.Word{
		"a stolen session alone":                   {By: ada},
		"a proof by the new passkey itself":        w.word(t, ada, second, passkey.Confirm, p.ID),
		"a proof for removing it":                  w.word(t, ada, first, passkey.Remove, p.ID),
		"a proof for another passkey":              w.word(t, ada, first, passkey.Confirm, first.ID),
		"an admin that ada has in hand, who signs": w.word(t, bob, bobs, passkey.Confirm, p.ID),
		"an admin, of an owner's passkey":          {By: cyd},
		"a stranger":                               {By: access.User("eve")},
	} {
		if _, err := w.Confirm(t.Context(), word, p.ID); err == nil || reason.Of(err) == reason.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := must.Get(w.Confirm(t.Context(), w.word(t, ada, first, passkey.Confirm, p.ID), p.ID))(t); !got.Counts() {
		t.Error("the passkey before does not confirm")
	}
	must.Do(t, w.votes(t, ada, second, "01A"))
	events := w.store.Events()
	last := events[len(events)-1]
	if !strings.Contains(string(last.Payload), `"proof":{`) {
		t.Errorf("the proof is not in the event: %s", last.Payload)
	}
	// cyd lost a passkey and gets another: ada has a passkey, so ada must sign.
	cyds, old := w.enroll(t, cyd)
	must.Get(w.Confirm(t.Context(), passkey.Word{By: access.User("local"), Host: true}, old.ID))(t)
	must.Do(t, w.votes(t, cyd, cyds, "01A"))
	_, lost := w.enroll(t, cyd)
	_, err := w.Confirm(t.Context(), passkey.Word{By: ada}, lost.ID)
	reasontest.Want(t, "another admin's stolen session", err, reason.PresenceNotProven)
	must.Get(w.Confirm(t.Context(), w.word(t, ada, first, passkey.Confirm, lost.ID), lost.ID))(t)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, p := w.enroll(t, ada)
	_, waits := w.enroll(t, bob)
	_ = waits
	_, err := w.Remove(t.Context(), passkey.Word{By: ada}, p.ID)
	reasontest.Want(t, "removed by a stolen session", err, reason.PresenceNotProven)
	_, err = w.Remove(t.Context(), passkey.Word{By: cyd}, p.ID)
	reasontest.Want(t, "an owner's, removed by an admin", err, reason.PermissionDenied)
	must.Get(w.Remove(t.Context(), w.word(t, ada, first, passkey.Remove, p.ID), p.ID))(t)
	if err := tryVote(t, w, ada, first); reason.Of(err) != reason.PresenceNotProven {
		t.Errorf("a removed passkey proves: %v", err)
	}
	// A removal does not make the next passkey a first one.
	if _, again := w.enroll(t, ada); !again.Waits {
		t.Error("after the removal the next one counts at once")
	}
	if _, err := w.tries(t, bob, first); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a removed passkey is enrolled again: %v", err)
	}
}

// tryVote proves a vote, or returns the error if no challenge is given.
func tryVote(t *testing.T, w *world, member access.Principal, a *passkeytest.Authenticator) error {
	_, err := w.Challenge(member, "vote", func(nonce []byte) passkey.Statement { return passkey.Vote{Nonce: nonce} })
	return err
}

// A registration from another origin, without user verification, replayed, or in another
// member's name is refused.
func TestRegistrationsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		misuse func(*passkeytest.Authenticator)
		says   string
	}{
		"the control":    {},
		"another origin": {func(a *passkeytest.Authenticator) { a.Origin = "http://localhost:5173" }, "origin"},
		"another party":  {func(a *passkeytest.Authenticator) { a.RPID = "localhost" }, ""},
		"no user":        {func(a *passkeytest.Authenticator) { a.Unverified = true }, ""},
		"a frame":        {func(a *passkeytest.Authenticator) { a.CrossOrigin = true }, ""},
	} {
		w, a := newWorld(t), passkeytest.New(t, origin)
		if c.misuse != nil {
			c.misuse(a)
		}
		_, err := w.tries(t, ada, a)
		if (err == nil) != (c.misuse == nil) || err != nil && reason.Of(err) != reason.PresenceNotProven {
			t.Errorf("%s: %v", name, err)
		}
		if c.misuse != nil && len(w.store.Events()) > 0 {
			t.Errorf("%s: journaled", name)
		}
	}
	w, a := newWorld(t), passkeytest.New(t, origin)
	c := must.Get(w.Begin(ada))(t)
	made := a.Create(t, c.Options)
	_, err := w.Finish(t.Context(), bob, "k", c.Nonce, made)
	reasontest.Want(t, "in another's name", err, reason.PresenceNotProven)
	must.Get(w.Finish(t.Context(), ada, "k", c.Nonce, made))(t)
	_, err = w.Finish(t.Context(), ada, "k", c.Nonce, made)
	reasontest.Want(t, "twice", err, reason.PresenceNotProven)
	_, err = w.Finish(t.Context(), ada, "k", must.Get(w.Begin(ada))(t).Nonce, made)
	reasontest.Want(t, "with the number of another", err, reason.PresenceNotProven)
	w.now = w.now.Add(time.Hour)
	c = must.Get(w.Begin(ada))(t)
	w.now = w.now.Add(3 * time.Minute)
	_, err = w.Finish(t.Context(), ada, "k", c.Nonce, a.Create(t, c.Options))
	reasontest.Want(t, "too late", err, reason.PresenceNotProven)
}

// Each misuse of a vote's proof is refused. Control: the same vote with a new proof.
func TestProofsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.enroll(t, ada)
	b, _ := w.enroll(t, bob)
	said := func(approval string) func([]byte) passkey.Statement {
		return func(nonce []byte) passkey.Statement {
			return passkey.Vote{Gateway: gateway, Voter: "user:ada", Approval: approval, Decision: "allow", Nonce: nonce}
		}
	}
	proof := func(approval string, by *passkeytest.Authenticator) passkey.Assertion {
		c := must.Get(w.Challenge(ada, passkey.VotePurpose(approval), said(approval)))(t)
		p := by.Get(t, c.Options)
		p.Nonce = c.Nonce
		return p
	}
	prove := func(member access.Principal, approval string, p passkey.Assertion) error {
		_, err := w.Prove(t.Context(), member, passkey.VotePurpose(approval), p, said(approval)(p.Nonce))
		return err
	}
	good := proof("01A", a)
	must.Do(t, prove(ada, "01A", good))
	reasontest.Want(t, "replayed", prove(ada, "01A", good), reason.PresenceNotProven)
	fresh := proof("01A", a)
	replayed := good
	replayed.Nonce = fresh.Nonce
	reasontest.Want(t, "replayed under a new number", prove(ada, "01A", replayed), reason.PresenceNotProven)
	reasontest.Want(t, "for another vote", prove(ada, "01B", proof("01A", a)), reason.PresenceNotProven)
	reasontest.Want(t, "by another member", prove(bob, "01A", proof("01A", a)), reason.PresenceNotProven)
	reasontest.Want(t, "by another member's passkey", prove(ada, "01A", proof("01A", b)), reason.PresenceNotProven)
	unknown := proof("01A", passkeytest.New(t, origin))
	reasontest.Want(t, "an unknown credential", prove(ada, "01A", unknown), reason.PresenceNotProven)
	posing := proof("01A", passkeytest.New(t, origin))
	posing.CredentialID = a.ID
	reasontest.Want(t, "a key of one's own under the credential's id", prove(ada, "01A", posing), reason.PresenceNotProven)
	late := proof("01A", a)
	w.now = w.now.Add(3 * time.Minute)
	reasontest.Want(t, "too late", prove(ada, "01A", late), reason.PresenceNotProven)
	must.Do(t, prove(ada, "01A", proof("01A", a)))
}

// A decreasing counter is refused, journaled and announced, also after a restart; a counter
// that is always zero is accepted.
func TestCounterRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := passkeytest.New(t, origin)
	a.Count = 5
	must.Get(w.tries(t, ada, a))(t)
	must.Do(t, w.votes(t, ada, a, "01A"))
	copied := *a
	must.Do(t, w.votes(t, ada, a, "01B"))
	w.restarts(t, origin)
	reasontest.Want(t, "the copy", w.votes(t, ada, &copied, "01C"), reason.PresenceNotProven)
	if got := w.store.Codes(); got[len(got)-1] != event.PasskeyCounterBack {
		t.Errorf("journaled: %v", got)
	}
	if got := strings.Join(w.Notices(ada), "\n"); !strings.Contains(got, "counter that went back") {
		t.Errorf("told: %s", got)
	}
	must.Do(t, w.votes(t, ada, a, "01D")) // control: an increasing counter
}

// Members and owners see a notice of an enrolment for seven days.
func TestNotices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _ = w.enroll(t, bob)
	for who, sees := range map[access.Principal]bool{bob: true, ada: true, cyd: false} {
		if got := w.Notices(who); (len(got) == 1) != sees {
			t.Errorf("%s is told %q", who, got)
		}
	}
	w.now = w.now.Add(7*24*time.Hour + time.Second)
	if got := w.Notices(ada); len(got) != 0 {
		t.Errorf("later: %q", got)
	}
}

// TestAllowedAuthenticators: if authenticator models are configured, an authenticator must attest
// to be one of them.
func TestAllowedAuthenticators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		aaguids []string
		packed  bool
		good    bool
	}{
		"none listed": {nil, false, true}, "listed and attested": {[]string{passkeytest.AAGUID}, true, true},
		"listed, not attested": {[]string{passkeytest.AAGUID}, false, false}, "another": {[]string{"00000000-0000-0000-0000-000000000001"}, true, false},
	} {
		w, a := newWorld(t, func(cfg *passkeys.Config) { cfg.Makes.AAGUIDs = c.aaguids }), passkeytest.New(t, origin)
		a.Packed = c.packed
		if _, err := w.tries(t, ada, a); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If root certificates of makers are configured, an attestation must chain to one of them.
// Self-attestation and another maker's certificate are refused.
func TestAttestationRoots(t *testing.T) {
	t.Parallel()
	maker, other := passkeytest.NewMaker(t), passkeytest.NewMaker(t)
	rootsOf := func(m *passkeytest.Maker) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(m.Root)
		return pool
	}
	for name, c := range map[string]struct {
		roots *x509.CertPool
		by    *passkeytest.Maker
		good  bool
		says  string
	}{
		"of the maker":                  {rootsOf(maker), maker, true, ""},
		"of another maker":              {rootsOf(other), maker, false, "leads to no certificate of presence.attestation_roots"},
		"by itself alone":               {rootsOf(maker), nil, false, "has no certificate, and presence.attestation_roots wants one"},
		"of no certificate at all":      {x509.NewCertPool(), maker, false, "leads to no certificate"},
		"the control, without them":     {nil, nil, true, ""},
		"the control, of another maker": {nil, other, true, ""},
	} {
		w := newWorld(t, func(cfg *passkeys.Config) {
			cfg.Makes.AAGUIDs, cfg.Makes.Roots = []string{passkeytest.AAGUID}, c.roots
		})
		a := passkeytest.New(t, origin)
		a.Packed, a.Maker = true, c.by
		p, err := w.tries(t, ada, a)
		if (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if c.good && p.Attestation != "packed" || !c.good && len(w.Passkeys(ada)) != 0 {
			t.Errorf("%s: enrolled %+v of %v", name, p, w.Passkeys(ada))
		}
	}
}

// After a change of the console's origin, browsers do not offer the old passkeys. A notice
// reports this.
func TestOriginChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.enroll(t, ada)
	w.restarts(t, "http://localhost:7145")
	if len(w.Lost()) != 1 || len(w.Proving()) != 0 {
		t.Errorf("lost: %v, proving: %v", w.Lost(), w.Proving())
	}
	w.now = w.now.Add(30 * 24 * time.Hour) // the notice stays while the problem exists
	if got := strings.Join(w.Notices(ada), "\n"); !strings.Contains(got, "(key of ada) of user:ada is lost") || !strings.Contains(got, "console is now at localhost") {
		t.Errorf("told %q", got)
	}
	reasontest.Want(t, "a challenge", tryVote(t, w, ada, a), reason.PresenceNotProven)
	w.restarts(t, "")
	_, err := w.Begin(ada)
	reasontest.Want(t, "without a console", err, reason.PresenceNotProven)
}

// TestAgreesWithTheLibrary: package passkey accepts and refuses the same inputs as the library.
func TestAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.enroll(t, ada)
	said := passkey.Vote{Approval: "01A"}
	challenge := must.Get(passkey.Challenge(said))(t)
	party, _ := passkey.PartyOf(origin)
	for name, misuse := range map[string]func(*passkeytest.Authenticator, *passkey.Assertion){
		"good":   nil,
		"origin": func(a *passkeytest.Authenticator, _ *passkey.Assertion) { a.Origin = "http://localhost:7145" },
		"party":  func(a *passkeytest.Authenticator, _ *passkey.Assertion) { a.RPID = "localhost" },
		"user":   func(a *passkeytest.Authenticator, _ *passkey.Assertion) { a.Unverified = true },
		"frame":  func(a *passkeytest.Authenticator, _ *passkey.Assertion) { a.CrossOrigin = true },
		"bytes": func(_ *passkeytest.Authenticator, p *passkey.Assertion) {
			p.AuthenticatorData = append(p.AuthenticatorData, 1)
		},
		"sig": func(_ *passkeytest.Authenticator, p *passkey.Assertion) { p.Signature[len(p.Signature)-1] ^= 1 },
	} {
		same := *a
		if misuse != nil {
			misuse(&same, &passkey.Assertion{AuthenticatorData: make([]byte, 40), Signature: make([]byte, 4)})
		}
		got := same.Sign(t, party.ID, challenge)
		if misuse != nil {
			misuse(&same, &got)
		}
		_, ours := got.Verify(a.PublicKey(t), party, said)
		if theirs := byLibrary(t, a, got, challenge); (ours == nil) != (theirs == nil) || (ours == nil) != (misuse == nil) {
			t.Errorf("%s: %v, the library: %v", name, ours, theirs)
		}
	}
}

// byLibrary verifies an assertion with go-webauthn.
func byLibrary(t *testing.T, by *passkeytest.Authenticator, a passkey.Assertion, challenge []byte) error {
	t.Helper()
	text := must.Get(json.Marshal(map[string]any{
		"id": passkey.Text(a.CredentialID), "rawId": passkey.Text(a.CredentialID), "type": "public-key",
		"response": map[string]any{"clientDataJSON": passkey.Text(a.ClientDataJSON), "authenticatorData": passkey.Text(a.AuthenticatorData), "signature": passkey.Text(a.Signature)},
	}))(t)
	parsed, err := protocol.ParseCredentialRequestResponseBytes(text)
	if err != nil {
		return err
	}
	party, _ := passkey.PartyOf(origin)
	return parsed.Verify(passkey.Text(challenge), party.ID, "", []string{origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false, true, true, by.COSE(t), protocol.SignaturePolicy{})
}
