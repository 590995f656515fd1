package api_test

import (
	"context"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/pairing"
	"palyra/internal/store/sqlite"
	"palyra/internal/surface/api"
)

// openPairings creates a host of pairings whose approvals are never answered.
func (w *world) openPairings() *pairing.Host {
	w.t.Helper()
	w.pairings = must.Get(pairing.NewHost(pairing.Config{
		Issuer: w.identity.Pairings, Approvals: nobodyAnswers{}, Journal: w.journal,
		Server: func() (pairing.Server, error) {
			return pairing.Server{CA: w.authority.Root().Raw, Name: "localhost", Key: []byte("a key")}, nil
		},
	}))(w.t)
	return w.pairings
}

type nobodyAnswers struct{}

func (nobodyAnswers) Ask(ctx context.Context, _ pairing.Code, _ func(string)) (pairing.Consent, error) {
	<-ctx.Done()
	return noYes{}, ctx.Err()
}

type noYes struct{}

func (noYes) By() []access.Principal                    { return nil }
func (noYes) Use(context.Context, ...event.Draft) error { return nil }

func (c *client) pairing() palyrav1connect.PairingServiceClient {
	return palyrav1connect.NewPairingServiceClient(c.http, c.w.url)
}

// TestPairingCodePermissions: a user can create codes for itself, and a member that may change
// members can create codes for others. Callers that may not see a member's code cannot tell
// whether it exists.
func TestPairingCodePermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	adm := w.admit(access.User("adm"), access.Principal{}, access.RoleAdmin)
	w.engine.Swap(w.policySet(must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)))
	pin := palyrav1.PairingKind_PAIRING_KIND_PIN
	for name, row := range map[string]struct {
		by   *client
		req  *palyrav1.CreatePairingCodeRequest
		want reason.Code
	}{
		"one's own":                     {w.dan, &palyrav1.CreatePairingCodeRequest{}, ""},
		"one's own, by name":            {w.eve, &palyrav1.CreatePairingCodeRequest{Member: "eve"}, ""},
		"somebody else's":               {w.dan, &palyrav1.CreatePairingCodeRequest{Member: "bob"}, reason.PermissionDenied},
		"its agent's":                   {w.alice, &palyrav1.CreatePairingCodeRequest{Member: "coder", AcceptLoss: true}, ""},
		"a new one by a developer":      {w.dan, &palyrav1.CreatePairingCodeRequest{NewMember: true, Member: "new", Roles: []string{"developer"}}, reason.PermissionDenied},
		"a new one by an admin":         {adm, &palyrav1.CreatePairingCodeRequest{NewMember: true, Member: "new", Roles: []string{"developer"}}, ""},
		"an owner by an admin":          {adm, &palyrav1.CreatePairingCodeRequest{NewMember: true, Member: "new", Roles: []string{"owner"}, AcceptLoss: true}, reason.PermissionDenied},
		"an owner's device by an admin": {adm, &palyrav1.CreatePairingCodeRequest{Member: "alice"}, reason.PermissionDenied},
		"by an agent":                   {w.coder, &palyrav1.CreatePairingCodeRequest{}, reason.PermissionDenied},
		"by a stranger":                 {w.connect("", nil), &palyrav1.CreatePairingCodeRequest{}, reason.Unauthenticated},
		"roles for an old member":       {w.alice, &palyrav1.CreatePairingCodeRequest{Member: "bob", Roles: []string{"owner"}}, reason.InvalidInput},
		"nobody's":                      {w.alice, &palyrav1.CreatePairingCodeRequest{Member: "nobody"}, reason.NotFound},
	} {
		row.req.Kind = pin
		made, err := row.by.pairing().CreatePairingCode(t.Context(), row.req)
		if row.want != "" {
			wantError(t, name, err, row.want)
			continue
		}
		if err != nil || len(made.GetSecret()) != 8 {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := must.Get(w.alice.pairing().ListPairings(t.Context(), &palyrav1.ListPairingsRequest{}))(t).GetPairings()
	mine := must.Get(w.dan.pairing().ListPairings(t.Context(), &palyrav1.ListPairingsRequest{}))(t).GetPairings()
	if len(all) != 4 || len(mine) != 1 || mine[0].GetMember() != "user:dan" {
		t.Errorf("the owner sees %d codes, dan %v", len(all), mine)
	}
	_, err := w.eve.pairing().CancelPairing(t.Context(), &palyrav1.CancelPairingRequest{PairingId: mine[0].GetPairingId()})
	wantError(t, "another's code", err, reason.NotFound)
	must.Get(w.dan.pairing().CancelPairing(t.Context(), &palyrav1.CancelPairingRequest{PairingId: mine[0].GetPairingId()}))(t)
}

// TestPairingIsPublic: the pairing steps need no credential, reveal nothing about members, accept
// no large message, and have their own rate limit.
func TestPairingIsPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := must.Get(w.alice.pairing().CreatePairingCode(t.Context(), &palyrav1.CreatePairingCodeRequest{Kind: palyrav1.PairingKind_PAIRING_KIND_PIN}))(t)
	stranger := w.connect("", nil)
	begun := must.Get(stranger.pairing().BeginPairing(t.Context(), &palyrav1.BeginPairingRequest{}))(t)
	if text := begun.String(); begun.GetPairingId() != made.GetPairing().GetPairingId() || strings.Contains(text, "alice") || strings.Contains(text, made.GetSecret()) {
		t.Errorf("a stranger is told %s", text)
	}
	_, err := stranger.pairing().ProvePairing(t.Context(), &palyrav1.ProvePairingRequest{
		PairingId: begun.GetPairingId(), Commitment: make([]byte, 32), CertificateRequest: make([]byte, 4096), DeviceName: strings.Repeat("x", 20<<10),
	})
	wantError(t, "a large message", err, reason.InputTooLarge)
	w = newWorld(t, func(w *world) {
		few := limit.Limit{PerSecond: 0.001, Burst: 3}
		w.limits[api.LimitPairing] = limit.Rates{Each: few, Global: limit.Limit{PerSecond: 1000, Burst: 1000}}
	})
	stranger = w.connect("", nil)
	for i := range 4 {
		_, err := stranger.pairing().BeginPairing(t.Context(), &palyrav1.BeginPairingRequest{})
		if i < 3 {
			wantError(t, "a step", err, reason.NotFound)
			continue
		}
		wantError(t, "a step too many", err, reason.RateLimited)
	}
}
