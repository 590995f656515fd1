package people

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/identity/pairing"
)

// BeginPairing returns the open code.
func (s *PairingService) BeginPairing(_ context.Context, req *palyrav1.BeginPairingRequest) (*palyrav1.BeginPairingResponse, error) {
	o, err := s.Host.Begin(req.GetPairingId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.BeginPairingResponse{
		PairingId: o.Code, Kind: kindMessage(o.Kind), Salt: o.Salt, DeviceId: o.DeviceID,
		CaCertificate: o.CA, ServerName: o.ServerName, ServerKeySha256: o.ServerKey,
	}, nil
}

// ProvePairing checks one guess of the code.
func (s *PairingService) ProvePairing(ctx context.Context, req *palyrav1.ProvePairingRequest) (*palyrav1.ProvePairingResponse, error) {
	conn, err := s.Connection(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.Host.Prove(conn, pairing.Proof{
		Code: req.GetPairingId(), Share: req.GetShare(), Commitment: req.GetCommitment(), Request: req.GetCertificateRequest(), Name: req.GetDeviceName(),
	})
	if err != nil {
		return nil, err
	}
	return &palyrav1.ProvePairingResponse{
		Attempt: a.Attempt, Share: a.Share, Confirmation: a.Confirmation, GuessesLeft: int32(a.GuessesLeft), //#nosec G115 -- at most pairing.MostGuesses
	}, nil
}

// ConfirmPairing completes the key exchange.
func (s *PairingService) ConfirmPairing(ctx context.Context, req *palyrav1.ConfirmPairingRequest) (*palyrav1.ConfirmPairingResponse, error) {
	conn, err := s.Connection(ctx)
	if err != nil {
		return nil, err
	}
	err = s.Host.Confirm(ctx, conn, pairing.Confirmation{Attempt: req.GetAttempt(), Confirmation: req.GetConfirmation(), Nonce: req.GetNonce()})
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConfirmPairingResponse{}, nil
}

// CollectPairing returns the certificate.
func (s *PairingService) CollectPairing(ctx context.Context, req *palyrav1.CollectPairingRequest) (*palyrav1.CollectPairingResponse, error) {
	conn, err := s.Connection(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.Host.Collect(ctx, conn, pairing.Collection{Request: req.GetCertificateRequest(), Signature: req.GetSignature()})
	if err != nil {
		return nil, err
	}
	res := &palyrav1.CollectPairingResponse{Waiting: c.Waiting}
	if !c.Waiting {
		res.DeviceId, res.Member, res.CertificateChain = c.DeviceID, c.Member, c.Chain
	}
	return res, nil
}
