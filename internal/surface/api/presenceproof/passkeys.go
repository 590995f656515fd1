package presenceproof

import (
	"context"
	"encoding/base64"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
)

// Passkeys stores the passkeys of members.
type Passkeys interface {
	Begin(member access.Principal) (passkey.Ceremony, error)
	Finish(ctx context.Context, member access.Principal, name string, nonce []byte, credential string) (passkey.Passkey, error)
	Confirm(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
	Remove(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
	Passkeys(of access.Principal) []passkey.Passkey
	Lost() []passkey.Passkey
	PasskeyProofs
}

// PasskeyProofs requests and verifies the signatures of passkeys.
type PasskeyProofs interface {
	Proving() []access.Principal
	Challenge(member access.Principal, purpose string, statement func(nonce []byte) passkey.Statement) (passkey.Ceremony, error)
	ChangeOf(by access.Principal, what string, id, nonce []byte) passkey.Change
	Prove(ctx context.Context, member access.Principal, purpose string, a passkey.Assertion, statement passkey.Statement) (passkey.Passkey, error)
}

// Votes are the approvals that members vote on.
type Votes interface {
	// Version returns the version of an approval that the caller may see.
	Version(ctx context.Context, approvalID string) (int64, error)
	// Said returns the statement that a passkey of the caller signs for a vote. The passkey proof
	// in it may be incomplete.
	Said(caller access.Caller, gateway string, vote *palyrav1.DecideApprovalRequest, proof *passkey.Assertion) (passkey.Vote, error)
	// MayRead returns an error unless the caller may see other members.
	MayRead(caller access.Caller) error
}

// everybody selects the passkeys of all members.
const everybody = "*"

// person refuses callers that cannot use passkeys. Any credential of the member's own is
// sufficient, because the passkey is the proof; a token is not, because it can be copied to a
// program.
func person(c access.Caller) error {
	if c.Principal.Kind != access.KindUser || c.Token != nil {
		return reason.Errorf(reason.PermissionDenied, "using passkeys: the caller is not a user with a console session or a device").
			WithRemedy("Open the console: `palyra console`.")
	}
	return nil
}

// BeginPasskeyEnrolment starts the enrolment of a passkey of the caller.
func (s *Service) BeginPasskeyEnrolment(ctx context.Context, _ *palyrav1.BeginPasskeyEnrolmentRequest) (*palyrav1.BeginPasskeyEnrolmentResponse, error) {
	caller := s.caller(ctx)
	if err := person(caller); err != nil {
		return nil, err
	}
	c, err := s.passkeys.Begin(caller.Principal)
	if err != nil {
		return nil, err
	}
	return &palyrav1.BeginPasskeyEnrolmentResponse{OptionsJson: c.Options, Nonce: c.Nonce, ExpiresAt: timestamppb.New(c.Until)}, nil
}

// FinishPasskeyEnrolment enrols the passkey that the browser created.
func (s *Service) FinishPasskeyEnrolment(ctx context.Context, req *palyrav1.FinishPasskeyEnrolmentRequest) (*palyrav1.FinishPasskeyEnrolmentResponse, error) {
	caller := s.caller(ctx)
	if err := person(caller); err != nil {
		return nil, err
	}
	p, err := s.passkeys.Finish(ctx, caller.Principal, req.GetName(), req.GetNonce(), req.GetCredentialJson())
	if err != nil {
		return nil, err
	}
	return &palyrav1.FinishPasskeyEnrolmentResponse{Passkey: s.passkeyMessage(p)}, nil
}

// ConfirmPasskey activates a pending passkey.
func (s *Service) ConfirmPasskey(ctx context.Context, req *palyrav1.ConfirmPasskeyRequest) (*palyrav1.ConfirmPasskeyResponse, error) {
	p, err := s.changePasskey(ctx, req.GetPasskeyId(), req.GetProof(), s.passkeys.Confirm)
	return &palyrav1.ConfirmPasskeyResponse{Passkey: p}, err
}

// RemovePasskey removes a passkey permanently.
func (s *Service) RemovePasskey(ctx context.Context, req *palyrav1.RemovePasskeyRequest) (*palyrav1.RemovePasskeyResponse, error) {
	p, err := s.changePasskey(ctx, req.GetPasskeyId(), req.GetProof(), s.passkeys.Remove)
	return &palyrav1.RemovePasskeyResponse{Passkey: p}, err
}

func (s *Service) changePasskey(ctx context.Context, id string, proof *palyrav1.PasskeyAssertion, change func(context.Context, passkey.Word, []byte) (passkey.Passkey, error)) (*palyrav1.Passkey, error) {
	caller := s.caller(ctx)
	if err := person(caller); err != nil {
		return nil, err
	}
	raw, err := passkeyID(id)
	if err != nil {
		return nil, err
	}
	p, err := change(ctx, passkey.Word{By: caller.Principal, Host: host(caller), Proof: assertionOf(proof)}, raw)
	if err != nil {
		return nil, err
	}
	return s.passkeyMessage(p), nil
}

// ListPasskeys lists passkeys.
func (s *Service) ListPasskeys(ctx context.Context, req *palyrav1.ListPasskeysRequest) (*palyrav1.ListPasskeysResponse, error) {
	caller := s.caller(ctx)
	of := caller.Principal
	switch req.GetMember() {
	case "", of.String():
	case everybody:
		of = access.Principal{}
	default:
		var err error
		if of, err = access.ParsePrincipal(req.GetMember()); err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "%w", err)
		}
	}
	if of != caller.Principal {
		if err := s.votes.MayRead(caller); err != nil {
			return nil, err
		}
	}
	res := &palyrav1.ListPasskeysResponse{}
	for _, p := range s.passkeys.Passkeys(of) {
		res.Passkeys = append(res.Passkeys, s.passkeyMessage(p))
	}
	return res, nil
}

// ChallengePasskey returns the challenge that a passkey of the caller has to sign.
func (s *Service) ChallengePasskey(ctx context.Context, req *palyrav1.ChallengePasskeyRequest) (*palyrav1.ChallengePasskeyResponse, error) {
	caller := s.caller(ctx)
	if err := person(caller); err != nil {
		return nil, err
	}
	if vote := req.GetVote(); vote != nil {
		return s.challengeVote(ctx, caller, vote)
	}
	what, text := passkey.Confirm, req.GetConfirm()
	if text == "" {
		what, text = passkey.Remove, req.GetRemove()
	}
	id, err := passkeyID(text)
	if err != nil {
		return nil, err
	}
	c, err := s.passkeys.Challenge(caller.Principal, passkey.ChangePurpose(what, id), func(nonce []byte) passkey.Statement {
		return s.passkeys.ChangeOf(caller.Principal, what, id, nonce)
	})
	return challengeMessage(c, 0, err)
}

func (s *Service) challengeVote(ctx context.Context, caller access.Caller, vote *palyrav1.DecideApprovalRequest) (*palyrav1.ChallengePasskeyResponse, error) {
	version, err := s.votes.Version(ctx, vote.GetApprovalId())
	if err != nil {
		return nil, err
	}
	statement, err := s.votes.Said(Voting(caller, vote), s.gateway, vote, &passkey.Assertion{Version: version})
	if err != nil {
		return nil, err
	}
	c, err := s.passkeys.Challenge(caller.Principal, passkey.VotePurpose(vote.GetApprovalId()), func(nonce []byte) passkey.Statement {
		statement.Nonce = nonce
		return statement
	})
	return challengeMessage(c, version, err)
}

// Voting returns the caller with the surface that the vote names.
func Voting(caller access.Caller, vote *palyrav1.DecideApprovalRequest) access.Caller {
	// Only programs may name their surface. The console surface belongs to console sessions alone,
	// and these have no other surface.
	if s := vote.GetSurface(); s != "" && caller.Surface == access.SurfaceGRPC {
		caller.Surface = access.Surface(s)
	}
	return caller
}

func challengeMessage(c passkey.Ceremony, version int64, err error) (*palyrav1.ChallengePasskeyResponse, error) {
	if err != nil {
		return nil, err
	}
	return &palyrav1.ChallengePasskeyResponse{OptionsJson: c.Options, Nonce: c.Nonce, Version: version, ExpiresAt: timestamppb.New(c.Until)}, nil
}

// provePasskey verifies a vote that carries a passkey assertion.
func (s *Service) provePasskey(ctx context.Context, caller access.Caller, vote *palyrav1.DecideApprovalRequest) (*passkey.Assertion, error) {
	if err := person(caller); err != nil {
		return nil, err
	}
	proof := assertionOf(vote.GetPasskey())
	statement, err := s.votes.Said(caller, s.gateway, vote, proof)
	if err != nil {
		return nil, err
	}
	_, err = s.passkeys.Prove(ctx, caller.Principal, passkey.VotePurpose(vote.GetApprovalId()), *proof, statement)
	return proof, err
}

func (s *Service) passkeyMessage(p passkey.Passkey) *palyrav1.Passkey {
	m := &palyrav1.Passkey{
		PasskeyId: passkey.Text(p.ID), Member: p.Member.String(), Name: p.Name, EnrolledAt: timestamppb.New(p.EnrolledAt), Waits: p.Waits,
		RpId: p.RPID, Aaguid: p.AAGUID, Attestation: p.Attestation, BackedUp: p.BackedUp, PublicKey: p.PublicKey,
	}
	if !p.LastUsedAt.IsZero() {
		m.LastUsedAt = timestamppb.New(p.LastUsedAt)
	}
	if !p.CounterBackAt.IsZero() {
		m.CounterBackAt = timestamppb.New(p.CounterBackAt)
	}
	for _, lost := range s.passkeys.Lost() {
		m.Lost = m.Lost || string(lost.ID) == string(p.ID)
	}
	return m
}

// PasskeyProof converts an assertion to its API message; nil for none.
func PasskeyProof(a *passkey.Assertion) *palyrav1.PasskeyAssertion {
	if a == nil {
		return nil
	}
	return &palyrav1.PasskeyAssertion{
		CredentialId: a.CredentialID, AuthenticatorData: a.AuthenticatorData, ClientDataJson: a.ClientDataJSON, Signature: a.Signature,
		Nonce: a.Nonce, Version: a.Version,
	}
}

// assertionOf converts an assertion from its API message; nil for none.
func assertionOf(m *palyrav1.PasskeyAssertion) *passkey.Assertion {
	if m == nil {
		return nil
	}
	return &passkey.Assertion{
		CredentialID: m.GetCredentialId(), AuthenticatorData: m.GetAuthenticatorData(), ClientDataJSON: m.GetClientDataJson(), Signature: m.GetSignature(),
		Nonce: m.GetNonce(), Version: m.GetVersion(),
	}
}

func passkeyID(text string) ([]byte, error) {
	id, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%q is not a valid passkey id", text)
	}
	return id, nil
}
