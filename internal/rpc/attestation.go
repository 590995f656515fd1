package rpc

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
)

type attestations struct{ evidence Evidence }

// GetAttestation returns one envelope.
func (a *attestations) GetAttestation(ctx context.Context, req *palyrav1.GetAttestationRequest) (*palyrav1.GetAttestationResponse, error) {
	found, err := a.evidence.Attestation(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetAttestationResponse{
		AttestationId: found.ID, ProposalId: found.ProposalID, EnvelopeJson: found.Envelope, JournalSeq: found.Seq,
	}, nil
}

// ListAttestations returns one page, newest first.
func (a *attestations) ListAttestations(ctx context.Context, req *palyrav1.ListAttestationsRequest) (*palyrav1.ListAttestationsResponse, error) {
	list, next, err := a.evidence.Attestations(ctx, int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListAttestationsResponse{NextPageToken: next}
	for _, at := range list {
		res.Attestations = append(res.Attestations, &palyrav1.AttestationSummary{
			AttestationId: at.ID, ProposalId: at.ProposalID, CallDigest: at.CallDigest, JournalSeq: at.Seq,
			At: timeMessage(at.At), Tool: at.Tool, Outcome: at.Outcome,
		})
	}
	return res, nil
}

// GetKeySet returns what an offline verifier needs.
func (a *attestations) GetKeySet(context.Context, *palyrav1.GetKeySetRequest) (*palyrav1.GetKeySetResponse, error) {
	keys, err := a.evidence.KeySet()
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetKeySetResponse{KeySetJson: keys}, nil
}
