package attest

import (
	"context"
	"encoding/json"
	"time"

	"palyra/internal/core/page"
	"palyra/internal/core/reason"
)

// Stored is a stored attestation.
type Stored struct {
	// ID and ProposalID are ULIDs.
	ID         string
	ProposalID string
	// CallDigest is "sha256:" and hex.
	CallDigest string
	// Envelope is the DSSE JSON, SHA256 is its digest in lower-case hex.
	Envelope  []byte
	SHA256    string
	CreatedAt time.Time
	// Seq is the sequence number of its journal event, set on reading. It is 0 if no event refers
	// to the attestation or its proposal.
	Seq int64
	// Position orders attestations; it is the page token of Attestations.
	Position int64
}

// Store keeps attestations.
type Store interface {
	// Attestation returns the attestation with an id, or reason.NotFound.
	Attestation(ctx context.Context, id string) (Stored, error)
	// AttestationByProposal returns the attestation of a call, or reason.NotFound.
	AttestationByProposal(ctx context.Context, proposalID string) (Stored, error)
	// Attestations lists at most limit attestations before a position, newest first. Position 0 is
	// the first page.
	Attestations(ctx context.Context, before int64, limit int) ([]Stored, error)
}

// Listed is a stored attestation with data of its statement.
type Listed struct {
	ID         string
	ProposalID string
	CallDigest string
	Tool       string
	Outcome    string
	Envelope   []byte
	Seq        int64
	At         time.Time
}

// Archive finds attestations and reads their statements.
type Archive struct {
	store  Store
	notary *Notary
	// checkpoints are the keys that sign the journal's checkpoints.
	checkpoints func() []CheckpointKey
}

// NewArchive returns the archive over a store.
func NewArchive(store Store, notary *Notary, checkpoints func() []CheckpointKey) *Archive {
	return &Archive{store, notary, checkpoints}
}

// Attestation finds an attestation by its own id or by the id of its proposal.
func (a *Archive) Attestation(ctx context.Context, id string) (Listed, error) {
	found, err := a.store.Attestation(ctx, id)
	if reason.Of(err) == reason.NotFound {
		found, err = a.store.AttestationByProposal(ctx, id)
	}
	if err != nil {
		return Listed{}, err
	}
	keys, err := NewVerifier(a.notary.KeySet())
	if err != nil {
		return Listed{}, err
	}
	return describe(found, keys), nil
}

// Attestations lists one page, newest first. The token is a position.
func (a *Archive) Attestations(ctx context.Context, size int, token string) ([]Listed, string, error) {
	wanted, err := page.Parse(size, token)
	if err != nil {
		return nil, "", err
	}
	found, err := a.store.Attestations(ctx, wanted.Before, wanted.Size)
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	keys, err := NewVerifier(a.notary.KeySet())
	if err != nil {
		return nil, "", err
	}
	list := make([]Listed, len(found))
	for i, one := range found {
		list[i] = describe(one, keys)
	}
	return list, wanted.Next(len(found), found[len(found)-1].Position), nil
}

// describe adds the data of the statement. A statement that does not verify is listed without
// this data; reading it returns the error.
func describe(a Stored, keys *Verifier) Listed {
	out := Listed{
		ID: a.ID, ProposalID: a.ProposalID, CallDigest: a.CallDigest, Envelope: a.Envelope, Seq: a.Seq, At: a.CreatedAt,
	}
	if v, err := keys.Verify(a.Envelope); err == nil {
		out.Tool, out.Outcome = v.Statement.Predicate.Invocation.Tool, v.Statement.Predicate.Result.Outcome
	}
	return out
}

// KeySet returns the input of an offline verifier.
func (a *Archive) KeySet() (json.RawMessage, error) {
	return a.notary.KeySet().WithCheckpointKeys(a.checkpoints()).JSON()
}
