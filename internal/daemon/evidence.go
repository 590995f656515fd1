package daemon

import (
	"context"
	"encoding/json"
	"strconv"

	"palyra/internal/attest"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
)

// evidence is what the gateway keeps beside the events.
type evidence struct {
	db     *sqlite.DB
	notary *attest.Notary
}

var _ rpc.Evidence = (*evidence)(nil)

// Snapshot returns the content behind a policy snapshot digest.
func (e *evidence) Snapshot(ctx context.Context, digest string) ([]byte, error) {
	return e.db.Snapshot(ctx, digest)
}

// Attestation finds one by its own id or by its proposal's.
func (e *evidence) Attestation(ctx context.Context, id string) (rpc.Attestation, error) {
	found, err := e.db.Attestation(ctx, id)
	if reason.Of(err) == reason.NotFound {
		found, err = e.db.AttestationByProposal(ctx, id)
	}
	if err != nil {
		return rpc.Attestation{}, err
	}
	return e.describe(found), nil
}

// Attestations lists one page, newest first. The token is a position.
func (e *evidence) Attestations(ctx context.Context, size int, token string) ([]rpc.Attestation, string, error) {
	const defaultSize = 50
	if size == 0 {
		size = defaultSize
	}
	var before int64
	if token != "" {
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil || n < 1 {
			return nil, "", reason.Errorf(reason.InvalidInput, "page token %q was not made by this service", token)
		}
		before = n
	}
	page, err := e.db.Attestations(ctx, before, size)
	if err != nil {
		return nil, "", err
	}
	list := make([]rpc.Attestation, len(page))
	for i, a := range page {
		list[i] = e.describe(a)
	}
	if len(page) < size {
		return list, "", nil
	}
	return list, strconv.FormatInt(page[len(page)-1].Position, 10), nil
}

// describe adds what the statement says. A statement that does not verify is
// listed without it: whoever asks for it sees why.
func (e *evidence) describe(a sqlite.Attestation) rpc.Attestation {
	out := rpc.Attestation{
		ID: a.ID, ProposalID: a.ProposalID, CallDigest: a.CallDigest, Envelope: a.Envelope, Seq: a.Seq, At: a.CreatedAt,
	}
	if v, err := attest.Verify(a.Envelope, e.notary.KeySet()); err == nil {
		out.Tool, out.Outcome = v.Statement.Predicate.Invocation.Tool, v.Statement.Predicate.Result.Outcome
	}
	return out
}

// KeySet is what an offline verifier needs.
func (e *evidence) KeySet() (json.RawMessage, error) { return e.notary.KeySet().JSON() }
