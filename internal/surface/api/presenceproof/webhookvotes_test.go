package presenceproof_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/signedvote"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/notify/notifytest"
)

// device is a key with a certificate, which the test's gateway may accept or not.
type device struct {
	key   crypto.Signer
	chain []*x509.Certificate
}

func newDevice(t *testing.T, key crypto.Signer) device {
	t.Helper()
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	return device{key, []*x509.Certificate{must.Get(x509.ParseCertificate(der))(t)}}
}

// TestVote: a vote that a member's device signed counts, on its surface and never as present,
// regardless of the sender. Any other vote is refused.
func TestVote(t *testing.T) {
	t.Parallel()
	w := notifytest.New(t)
	ec := newDevice(t, must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	ed, thief := newDevice(t, edKey), newDevice(t, must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	var refused []reason.Code
	permit, unsigned, limit := error(nil), 0, error(nil)
	h := presenceproof.Handler{
		Gateway: "gateway.test", Votes: w.Desk.Votes, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Authenticate: func(chain []*x509.Certificate) (access.Caller, error) {
			if !chain[0].Equal(ec.chain[0]) && !chain[0].Equal(ed.chain[0]) {
				return access.Caller{}, reason.Errorf(reason.Unauthenticated, "nobody's certificate")
			}
			return access.Caller{Principal: access.User("ann"), OnBehalfOf: access.User("ann"), DeviceID: "d", Surface: access.SurfaceGRPC, Paired: true, Present: true}, nil
		},
		Permit: func(access.Caller, access.Permission) error { return permit }, Spend: func(access.Caller) error { return nil },
		SpendUnsigned: func(context.Context) error { unsigned++; return limit },
		Refused:       func(_ context.Context, code reason.Code) { refused = append(refused, code) },
		Refuse: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, string(reason.Of(err)), http.StatusBadRequest)
		},
	}
	post := func(body []byte) (int, string) {
		rw := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/webhooks/v1/decisions", strings.NewReader(string(body)))
		r.Header.Set("webhook-signature", "v1,whatever")
		r.Header.Set("Authorization", "Bearer pal_token")
		h.ServeHTTP(rw, r)
		return rw.Code, strings.TrimSpace(rw.Body.String())
	}
	now := time.Now().UTC().Truncate(time.Second)
	vote := func(r approval.Record) signedvote.Vote {
		return signedvote.Vote{
			Gateway: "gateway.test", Approval: r.ID, Version: r.Version, CallDigest: r.CallDigest, Allow: true, SignedAt: now, ExpiresAt: now.Add(10 * time.Minute),
		}
	}
	sign := func(d device, v signedvote.Vote) signedvote.Signed {
		return must.Get(signedvote.Sign(d.key, d.chain, v))(t)
	}
	text := func(s any) []byte { return must.Get(json.Marshal(s))(t) }
	rec := w.Ask()
	changed := func(change func(*signedvote.Vote)) []byte {
		v := vote(rec)
		change(&v)
		return text(sign(ec, v))
	}
	tampered := sign(ec, func() signedvote.Vote { v := vote(rec); v.Allow, v.Reason = false, "no"; return v }())
	tampered.Vote.Allow = true
	stolen := sign(thief, vote(rec))
	stolen.Chain = sign(ec, vote(rec)).Chain
	for name, c := range map[string]struct {
		body []byte
		want reason.Code
	}{
		"no vote at all":            {[]byte(`{"approval_id":"` + rec.ID + `","decision":"allow"}`), reason.InvalidInput},
		"no JSON":                   {[]byte("x"), reason.InvalidInput},
		"too long":                  {[]byte(`{"x":"` + strings.Repeat("x", 70_000) + `"}`), reason.InputTooLarge},
		"nobody's device":           {text(sign(thief, vote(rec))), reason.Unauthenticated},
		"another's certificate":     {text(stolen), reason.Unauthenticated},
		"changed on the way":        {text(tampered), reason.Unauthenticated},
		"another gateway":           {changed(func(v *signedvote.Vote) { v.Gateway = "other.test" }), reason.Unauthenticated},
		"expired":                   {changed(func(v *signedvote.Vote) { v.SignedAt, v.ExpiresAt = now.Add(-10*time.Minute), now.Add(-time.Minute) }), reason.Unauthenticated},
		"good for too long":         {changed(func(v *signedvote.Vote) { v.ExpiresAt = now.Add(time.Hour) }), reason.Unauthenticated},
		"from a time to come":       {changed(func(v *signedvote.Vote) { v.SignedAt, v.ExpiresAt = now.Add(5*time.Minute), now.Add(10*time.Minute) }), reason.Unauthenticated},
		"another call":              {changed(func(v *signedvote.Vote) { v.CallDigest = "sha256:other" }), reason.DigestMismatch},
		"another version":           {changed(func(v *signedvote.Vote) { v.Version = 7 }), reason.ApprovalConflict},
		"no version":                {changed(func(v *signedvote.Vote) { v.Version = 0 }), reason.InvalidInput},
		"no digest":                 {changed(func(v *signedvote.Vote) { v.CallDigest = "" }), reason.InvalidInput},
		"a denial without a reason": {changed(func(v *signedvote.Vote) { v.Allow = false }), reason.InvalidInput},
	} {
		if code, got := post(c.body); code == http.StatusOK || got != string(c.want) {
			t.Errorf("%s: %d %s, want %s", name, code, got, c.want)
		}
	}
	if unsigned != 10 {
		t.Errorf("%d requests without a valid signature were counted as such, want 10", unsigned)
	}
	permit = reason.Errorf(reason.PermissionDenied, "no")
	if _, got := post(text(sign(ec, vote(rec)))); got != string(reason.PermissionDenied) {
		t.Errorf("without the permission: %s", got)
	}
	permit = nil
	if r := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t); r.State != approval.Pending || len(r.Votes) != 0 {
		t.Fatalf("something counted: %+v", r.Votes)
	}
	if len(refused) != 8 {
		t.Errorf("%d refusals are told: %v", len(refused), refused)
	}
	limit = reason.Errorf(reason.RateLimited, "too many")
	for _, body := range [][]byte{[]byte("x"), text(stolen)} {
		if _, got := post(body); got != string(reason.RateLimited) {
			t.Errorf("%s for an unsigned request that is one too many", got)
		}
	}
	// Control: the same vote, unchanged. The limit of unsigned requests does not apply to it.
	if code, got := post(text(sign(ec, vote(rec)))); code != http.StatusOK || !strings.Contains(got, `"state":"allowed"`) {
		t.Fatalf("%d %s", code, got)
	}
	if v := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t).Votes[0]; v.Surface != access.SurfaceWebhook || v.Present || !v.Paired {
		t.Errorf("the vote is %+v", v)
	}
	if _, got := post(text(sign(ec, vote(rec)))); got != string(reason.ApprovalConflict) {
		t.Errorf("the same again: %s", got)
	}
	other := w.Ask(func(a *approval.Ask) { a.Plan.Binding.Argv = []string{"make", "b"} })
	no := vote(other)
	no.Allow, no.Reason = false, "not today"
	if code, got := post(text(sign(ed, no))); code != http.StatusOK || !strings.Contains(got, `"state":"denied"`) {
		t.Errorf("a no with an Ed25519 key: %d %s", code, got)
	}
}
