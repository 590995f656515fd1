package presenceproof

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/signedvote"
)

// Route is the endpoint that receives votes.
const Route = "POST /webhooks/v1/decisions"

// Caster casts votes. It is implemented by approval.Votes.
type Caster interface {
	Decide(ctx context.Context, caller access.Caller, id string, b approval.Ballot) (approval.Record, error)
}

// Handler receives signed votes. All fields are required.
type Handler struct {
	Gateway string
	Votes   Caster
	// Authenticate maps the chain of a device's certificate to its member.
	Authenticate func(chain []*x509.Certificate) (access.Caller, error)
	// Permit checks a permission of the API against policy.
	Permit func(c access.Caller, p access.Permission) error
	// Spend counts a vote of a member against its limits.
	Spend func(c access.Caller) error
	// SpendUnsigned counts a request without a valid signature against the limits of its
	// sender (api.CountAgain).
	SpendUnsigned func(ctx context.Context) error
	// Refused is called with the reason of each vote that was not counted.
	Refused func(ctx context.Context, code reason.Code)
	Refuse  func(w http.ResponseWriter, r *http.Request, err error)
	Log     *slog.Logger
	Now     func() time.Time
}

// mostBody bounds a signed vote in bytes: most have 2 KiB, and the longest reason fits.
const mostBody = 16 << 10

// answer reports the state of the approval, without any content of the call.
type answer struct {
	Approval   string         `json:"approval_id"`
	State      approval.State `json:"state"`
	Version    int64          `json:"version"`
	CallDigest string         `json:"call_digest"`
}

// ServeHTTP casts one vote.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec, err := h.vote(r)
	if err != nil {
		if code := reason.Of(err); code == reason.Unauthenticated || code == reason.PermissionDenied || code == reason.RateLimited {
			h.Refused(r.Context(), code)
		}
		h.Refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(answer{rec.ID, rec.State, rec.Version, rec.CallDigest}); err != nil {
		h.Log.DebugContext(r.Context(), "writing the answer to a vote failed", slog.String("error", err.Error()))
	}
}

func (h Handler) vote(r *http.Request) (approval.Record, error) {
	v, caller, err := h.verify(r)
	if err != nil {
		if limit := h.SpendUnsigned(r.Context()); limit != nil {
			return approval.Record{}, limit
		}
		return approval.Record{}, err
	}
	if err := h.Spend(caller); err != nil {
		return approval.Record{}, err
	}
	if err := h.Permit(caller, access.PermApprovalDecide); err != nil {
		return approval.Record{}, err
	}
	if v.CallDigest == "" || v.Version < 1 {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "call_digest and version are required: they identify the call that the voter reviewed")
	}
	if !v.Allow && v.Reason == "" {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "reason is required for a denial")
	}
	return h.Votes.Decide(access.Precede(r.Context(), access.PrecedenceUrgent), caller, v.Approval, approval.Ballot{
		Allow: v.Allow, Scope: approval.Once, Reason: v.Reason, ShownDigest: v.CallDigest, ShownVersion: v.Version,
	})
}

// verify parses a signed vote and finds its voter. An unauthenticated client can cause this
// work before a rate limit applies. The work MUST therefore stay small: the bounds on the body
// and on the certificate chain limit it.
func (h Handler) verify(r *http.Request) (signedvote.Vote, access.Caller, error) {
	refused := func(err error) (signedvote.Vote, access.Caller, error) {
		return signedvote.Vote{}, access.Caller{}, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, mostBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refused(reason.Errorf(reason.InputTooLarge, "the signed vote is larger than %d bytes", mostBody))
	case err != nil:
		return refused(reason.Errorf(reason.InvalidInput, "reading a vote: %w", err))
	}
	signed, chain, err := signedvote.Parse(body)
	if err != nil {
		return refused(err)
	}
	// The certificate is authenticated first: until then its key belongs to no member.
	caller, err := h.Authenticate(chain)
	if err != nil {
		return refused(err)
	}
	if err := signed.Verify(chain[0], h.Gateway, h.Now()); err != nil {
		return refused(err)
	}
	caller.Surface, caller.Present = access.SurfaceWebhook, false
	return signed.Vote, caller, nil
}
