package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"palyra/internal/attest"
	"palyra/internal/identity/ca"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
)

// evidence is what the gateway keeps beside the events.
type evidence struct {
	db        *sqlite.DB
	notary    *attest.Notary
	authority *ca.Authority
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
	keys, err := attest.NewVerifier(e.notary.KeySet())
	if err != nil {
		return rpc.Attestation{}, err
	}
	return describe(found, keys), nil
}

// defaultPage is the size of a page where none is asked for.
const defaultPage = 50

// pageOf reads the size of a page and its token, a position; 0 is before the
// first page.
func pageOf(size int, token string) (entries int, before int64, err error) {
	if token != "" {
		if before, err = strconv.ParseInt(token, 10, 64); err != nil || before < 1 {
			return 0, 0, reason.Errorf(reason.InvalidInput, "page token %q was not made by this service", token)
		}
	}
	return cmp.Or(size, defaultPage), before, nil
}

// Attestations lists one page, newest first. The token is a position.
func (e *evidence) Attestations(ctx context.Context, size int, token string) ([]rpc.Attestation, string, error) {
	size, before, err := pageOf(size, token)
	if err != nil {
		return nil, "", err
	}
	page, err := e.db.Attestations(ctx, before, size)
	if err != nil {
		return nil, "", err
	}
	keys, err := attest.NewVerifier(e.notary.KeySet())
	if err != nil {
		return nil, "", err
	}
	list := make([]rpc.Attestation, len(page))
	for i, a := range page {
		list[i] = describe(a, keys)
	}
	if len(page) < size {
		return list, "", nil
	}
	return list, strconv.FormatInt(page[len(page)-1].Position, 10), nil
}

// describe adds what the statement says. A statement that does not verify is
// listed without it: whoever asks for it sees why.
func describe(a sqlite.Attestation, keys *attest.Verifier) rpc.Attestation {
	out := rpc.Attestation{
		ID: a.ID, ProposalID: a.ProposalID, CallDigest: a.CallDigest, Envelope: a.Envelope, Seq: a.Seq, At: a.CreatedAt,
	}
	if v, err := keys.Verify(a.Envelope); err == nil {
		out.Tool, out.Outcome = v.Statement.Predicate.Invocation.Tool, v.Statement.Predicate.Result.Outcome
	}
	return out
}

// KeySet is what an offline verifier needs.
func (e *evidence) KeySet() (json.RawMessage, error) {
	return e.notary.KeySet().WithCheckpointKeys(certifiedKeys(e.authority.JournalKeys())).JSON()
}

func certifiedKeys(keys []ca.JournalKey) []attest.CheckpointKey {
	list := make([]attest.CheckpointKey, len(keys))
	for i, k := range keys {
		list[i] = attest.CheckpointKey{
			Verifier: k.Verifier, CertificateChain: k.ChainPEM(), CertifiedAt: k.CertifiedAt, FirstSize: k.First, LastSize: k.Last,
		}
	}
	return list
}
