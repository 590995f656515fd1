package api_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/passkey/passkeytest"
	"palyra/internal/identity/passkeys"
	"palyra/internal/store/sqlite"
)

const consoleOrigin = "http://palyra-k3x.localhost:7145"

func (w *world) openPasskeys() *passkeys.Keeper {
	w.t.Helper()
	w.passkeys = must.Get(passkeys.New(w.t.Context(), passkeys.Config{
		Store: sqlite.NewIdentity(w.db), Members: w.registry, Gateway: w.rootDigest(), Now: w.now,
		Independent:    w.identity.Directory.History().Controllers().Independence().Independent,
		AgentConnected: func(context.Context) (bool, error) { return w.agentConnected, nil },
	}))(w.t)
	must.Do(w.t, w.passkeys.At(consoleOrigin))
	return w.passkeys
}

// enroll enrolls a passkey for the client.
func (c *client) enroll() (*passkeytest.Authenticator, *palyrav1.Passkey) {
	t := c.w.t
	t.Helper()
	a := passkeytest.New(t, consoleOrigin)
	begun := must.Get(c.presence().BeginPasskeyEnrolment(t.Context(), &palyrav1.BeginPasskeyEnrolmentRequest{}))(t)
	res := must.Get(c.presence().FinishPasskeyEnrolment(t.Context(), &palyrav1.FinishPasskeyEnrolmentRequest{
		Nonce: begun.GetNonce(), Name: "laptop", CredentialJson: a.Create(t, begun.GetOptionsJson()),
	}))(t)
	return a, res.GetPasskey()
}

// touched adds a passkey assertion to a vote.
func (c *client) touched(a *passkeytest.Authenticator, v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
	t := c.w.t
	t.Helper()
	given := must.Get(c.presence().ChallengePasskey(t.Context(), &palyrav1.ChallengePasskeyRequest{Said: &palyrav1.ChallengePasskeyRequest_Vote{Vote: v}}))(t)
	v.Passkey = answered(a.Get(t, given.GetOptionsJson()), given)
	return v
}

func answered(a passkey.Assertion, given *palyrav1.ChallengePasskeyResponse) *palyrav1.PasskeyAssertion {
	return &palyrav1.PasskeyAssertion{
		CredentialId: a.CredentialID, AuthenticatorData: a.AuthenticatorData, ClientDataJson: a.ClientDataJSON, Signature: a.Signature,
		Nonce: given.GetNonce(), Version: given.GetVersion(),
	}
}

// A policy that requires presence accepts a vote with a passkey, also after a vote without one.
// The events of the enrolment and the vote are sufficient to verify it later.
func TestVoteByPasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = somebodyThere })
	a, p := w.bob.enroll()
	if p.GetWaits() || p.GetMember() != "user:bob" {
		t.Fatalf("enrolled: %v", p)
	}
	asked := w.asks()
	after := must.Get(w.bob.votes(yesTo(asked)))(t)
	if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || !after.GetPresenceWanted() {
		t.Fatalf("without a proof: %v", after)
	}
	yes := yesTo(asked)
	yes.Scope, yes.Ttl, yes.Uses, yes.Reason = palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, nil, 3, "fine by me"
	after = must.Get(w.bob.votes(w.bob.touched(a, yes)))(t)
	if after.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING || !after.GetVotes()[0].GetPresent() || after.GetVotes()[0].GetPasskey() == nil {
		t.Fatalf("with one: %v", after)
	}
	log := &passkey.Log{Whole: true, Gateway: w.rootDigest()}
	for _, e := range must.Get(w.journal.List(t.Context(), journal.Filter{}))(t) {
		must.Do(t, record.NotePasskey(log, &e))
	}
	if log.Verified != 1 {
		t.Errorf("%d votes verify from the journal", log.Verified)
	}
	if got := strings.Join(must.Get(w.bob.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t).GetNotices(), "\n"); !strings.Contains(got, "was enrolled at") {
		t.Errorf("status: %s", got)
	}
	list := must.Get(w.bob.presence().ListPasskeys(t.Context(), &palyrav1.ListPasskeysRequest{}))(t).GetPasskeys()
	if len(list) != 1 || list[0].GetLastUsedAt() == nil || list[0].GetRpId() != "palyra-k3x.localhost" {
		t.Errorf("listed: %v", list)
	}
	_, err := w.bob.presence().ListPasskeys(t.Context(), &palyrav1.ListPasskeysRequest{Member: "*"})
	wantError(t, "everybody's", err, reason.PermissionDenied)
}

// Each misuse of a passkey refuses the vote, and no vote is recorded.
func TestPasskeyVotesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = somebodyThere })
	carol := w.admit(access.User("carol"), access.Principal{}, access.RoleOperator)
	w.engine.Swap(w.policySet(must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)))
	a, _ := w.bob.enroll()
	other := w.asks()
	var seen *palyrav1.PasskeyAssertion
	type vote = palyrav1.DecideApprovalRequest
	for name, misuse := range map[string]func(v *vote) *vote{
		"for another approval": func(v *vote) *vote { v.Passkey = w.bob.touched(a, yesTo(other)).Passkey; return v },
		"another decision": func(v *vote) *vote {
			v.Allow, v.Reason = false, "because"
			w.bob.touched(a, v).Allow = true
			return v
		},
		"another scope": func(v *vote) *vote {
			w.bob.touched(a, v).Scope = palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION
			return v
		},
		"a longer time": func(v *vote) *vote {
			v.Scope, v.Ttl = palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, durationpb.New(60e9)
			w.bob.touched(a, v).Ttl = durationpb.New(3600e9)
			return v
		},
		"another reason":     func(v *vote) *vote { w.bob.touched(a, v).Reason = "the boss said so"; return v },
		"another surface":    func(v *vote) *vote { w.bob.touched(a, v).Surface = "cli"; return v },
		"an unknown passkey": func(v *vote) *vote { return w.bob.touched(passkeytest.New(t, consoleOrigin), v) },
		"no user": func(v *vote) *vote {
			a.Unverified = true
			defer func() { a.Unverified = false }()
			return w.bob.touched(a, v)
		},
		"another page": func(v *vote) *vote {
			a.Origin = "http://localhost:5173"
			defer func() { a.Origin = consoleOrigin }()
			return w.bob.touched(a, v)
		},
		"another version": func(v *vote) *vote { w.bob.touched(a, v).Passkey.Version++; return v },
	} {
		t.Run(name, func(t *testing.T) {
			asked := w.asks()
			_, err := w.bob.votes(misuse(yesTo(asked)))
			wantError(t, name, err, reason.PresenceNotProven)
			got := must.Get(w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()}))(t).GetApproval()
			if got.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || len(got.GetVotes()) != 0 {
				t.Errorf("voted: %v", got.GetVotes())
			}
			control := w.bob.touched(a, yesTo(asked))
			if after, err := w.bob.votes(control); err != nil || !after.GetVotes()[0].GetPresent() {
				t.Errorf("the control: %v, %v", after.GetVotes(), err)
			}
			seen = control.Passkey
		})
	}
	replayed := yesTo(w.asks())
	replayed.Passkey = seen
	_, err := w.bob.votes(replayed)
	wantError(t, "replayed on another approval", err, reason.PresenceNotProven)
	// Another member's vote in between changes the approval, so that the assertion no longer
	// matches.
	asked := w.asks()
	yes := w.bob.touched(a, yesTo(asked))
	must.Get(carol.votes(yesTo(asked)))(t)
	_, err = w.bob.votes(yes)
	wantError(t, "the record changed", err, reason.ApprovalConflict)
}

// TestEnrolmentWithStolenSession: with an agent connected, a stolen session cannot enroll a
// passkey that counts. It counts after a confirmation on the host; neither its own session nor
// an owner can confirm it.
func TestEnrolmentWithStolenSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentConnected = true
	_, p := w.bob.enroll()
	if !p.GetWaits() {
		t.Fatal("it counts at once")
	}
	_, err := w.bob.presence().ChallengePasskey(t.Context(), &palyrav1.ChallengePasskeyRequest{Said: &palyrav1.ChallengePasskeyRequest_Confirm{Confirm: p.GetPasskeyId()}})
	wantError(t, "a challenge", err, reason.PresenceNotProven)
	for name, c := range map[string]*client{"its own session": w.bob, "an owner": w.alice} {
		_, err = c.presence().ConfirmPasskey(t.Context(), &palyrav1.ConfirmPasskeyRequest{PasskeyId: p.GetPasskeyId()})
		wantError(t, name, err, reason.PermissionDenied)
	}
	asked := w.asks()
	v := yesTo(asked)
	v.Passkey = answered(passkeytest.New(t, consoleOrigin).Sign(t, "x", nil), &palyrav1.ChallengePasskeyResponse{Nonce: make([]byte, 32)})
	_, err = w.bob.votes(v)
	wantError(t, "a vote with it", err, reason.PresenceNotProven)
	host, _ := w.onSocket()
	got := must.Get(host.presence().ConfirmPasskey(t.Context(), &palyrav1.ConfirmPasskeyRequest{PasskeyId: p.GetPasskeyId()}))(t).GetPasskey()
	if got.GetWaits() {
		t.Error("the host's word does not count")
	}
	codes := []string{}
	for _, e := range must.Get(w.journal.List(t.Context(), journal.Filter{Code: "PAL-I16"}))(t) {
		codes = append(codes, string(e.Code))
	}
	if !slices.Equal(codes, []string{string(event.PasskeyEnrolled), string(event.PasskeyConfirmed)}) {
		t.Errorf("journaled: %v", codes)
	}
}

// An API token cannot enroll a passkey, whichever member created the token.
func TestTokensHaveNoPasskeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call", "daemon.status"}}).GetText()
	for name, c := range map[string]*client{"an agent": w.coder, "a token of an owner": w.showing("Bearer " + text)} {
		_, err := c.presence().BeginPasskeyEnrolment(t.Context(), &palyrav1.BeginPasskeyEnrolmentRequest{})
		wantError(t, name, err, reason.PermissionDenied)
	}
	must.Get(w.alice.presence().BeginPasskeyEnrolment(t.Context(), &palyrav1.BeginPasskeyEnrolmentRequest{}))(t)
}
