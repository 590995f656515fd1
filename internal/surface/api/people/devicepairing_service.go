package people

import (
	"context"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/pairing"
)

// MaxMessage is the largest size of a request message in bytes. It is small because unauthenticated
// clients send these messages.
const MaxMessage = 16 << 10

// Members returns the members, including removed ones.
type Members interface{ List() []access.Member }

// PairingService is the PairingService. All fields are required.
type PairingService struct {
	Host    *pairing.Host
	Engine  *policy.Engine
	Members Members
	// Caller returns the caller of a request. The steps of a pairing machine have none.
	Caller func(context.Context) access.Caller
	// Connection returns the connection of a request.
	Connection func(context.Context) (pairing.Connection, error)
}

var pairingKinds = map[palyrav1.PairingKind]pairing.Kind{
	palyrav1.PairingKind_PAIRING_KIND_PIN: pairing.PIN, palyrav1.PairingKind_PAIRING_KIND_QR: pairing.QR,
}

var states = map[pairing.State]palyrav1.PairingState{
	pairing.Open: palyrav1.PairingState_PAIRING_STATE_OPEN, pairing.Asked: palyrav1.PairingState_PAIRING_STATE_ASKED,
	pairing.Given: palyrav1.PairingState_PAIRING_STATE_GIVEN,
}

// CreatePairingCode creates a pairing code.
func (s *PairingService) CreatePairingCode(ctx context.Context, req *palyrav1.CreatePairingCodeRequest) (*palyrav1.CreatePairingCodeResponse, error) {
	caller := s.Caller(ctx)
	p, err := s.device(caller, req)
	if err != nil {
		return nil, err
	}
	if err := s.mayGive(caller, p); err != nil {
		return nil, err
	}
	made, err := s.Host.Create(ctx, pairing.Request{Kind: pairingKinds[req.GetKind()], TTL: req.GetTtl().AsDuration(), For: p})
	if err != nil {
		return nil, err
	}
	return &palyrav1.CreatePairingCodeResponse{Pairing: pairingMessage(made.Code), Secret: made.Secret}, nil
}

// device returns the device that the request describes.
func (s *PairingService) device(caller access.Caller, req *palyrav1.CreatePairingCodeRequest) (identity.Pairing, error) {
	p := identity.Pairing{Member: caller.Principal, MadeBy: caller.Principal, AcceptLoss: req.GetAcceptLoss()}
	name := req.GetMember()
	if !req.GetNewMember() {
		if len(req.GetRoles()) > 0 || req.GetOwner() != "" {
			return p, reason.Errorf(reason.InvalidInput, "roles and an owner apply only to a new member; %s keeps its own", name).
				WithRemedy("Omit them, or change the member: `palyra members roles`.")
		}
		if name != "" {
			m, known := pairedMember(s.Members, name)
			if !known {
				return p, reason.Errorf(reason.NotFound, "the member %s does not exist", name).
					WithRemedy("See `palyra members list`, or create a member with `palyra pairing code --new NAME --role ROLE`.")
			}
			p.Member = m.Principal
		}
		return p, nil
	}
	p.New, p.Member = true, access.User(name)
	if req.GetOwner() != "" {
		p.Member, p.Owner = access.Agent(name), access.User(strings.TrimPrefix(req.GetOwner(), "user:"))
	}
	for _, text := range req.GetRoles() {
		role, err := access.ParseRole(text)
		if err != nil {
			return p, reason.Errorf(reason.InvalidInput, "%w", err)
		}
		p.Roles = append(p.Roles, role)
	}
	return p, nil
}

// pairedMember finds a member that is not removed, as memberNamed does.
func pairedMember(list Members, name string) (access.Member, bool) {
	return memberNamed(slices.DeleteFunc(slices.Clone(list.List()), access.Member.Removed), name)
}

// mayGive returns nil if policy allows the caller to create such a device. A device of the
// caller itself needs no permission in addition to the method's own.
func (s *PairingService) mayGive(caller access.Caller, p identity.Pairing) error {
	if own(p) {
		return nil
	}
	needed := []access.Permission{access.PermAccessWrite}
	if powerful(s.Members, p) {
		needed = append(needed, access.PermAccessWriteOwner)
	}
	for _, permission := range needed {
		if err := s.Engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: permission}); err != nil {
			return err
		}
	}
	return nil
}

// ListPairings lists pairing codes.
func (s *PairingService) ListPairings(ctx context.Context, _ *palyrav1.ListPairingsRequest) (*palyrav1.ListPairingsResponse, error) {
	caller := s.Caller(ctx)
	res := &palyrav1.ListPairingsResponse{}
	for _, c := range s.Host.List(ctx, caller.Principal, s.all(caller)) {
		res.Pairings = append(res.Pairings, pairingMessage(c))
	}
	return res, nil
}

// CancelPairing ends a pairing code.
func (s *PairingService) CancelPairing(ctx context.Context, req *palyrav1.CancelPairingRequest) (*palyrav1.CancelPairingResponse, error) {
	caller := s.Caller(ctx)
	was, err := s.Host.Cancel(ctx, caller.Principal, s.all(caller), req.GetPairingId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.CancelPairingResponse{Pairing: pairingMessage(was)}, nil
}

// all reports whether a caller may see the codes of others.
func (s *PairingService) all(caller access.Caller) bool {
	return s.Engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermAccessWrite}) == nil
}

func pairingMessage(c pairing.Code) *palyrav1.Pairing {
	m := &palyrav1.Pairing{
		PairingId: c.ID, State: states[c.State], Member: c.For.Member.String(), NewMember: c.For.New, Owner: c.For.Owner.String(),
		MadeBy: c.For.MadeBy.String(), CreatedAt: moment(c.CreatedAt), ExpiresAt: moment(c.ExpiresAt), Guesses: int32(c.Guesses), //#nosec G115 -- at most pairing.MostGuesses
		ApprovalId: c.ApprovalID, Comparison: c.Comparison, KeySha256: c.KeySHA256, Address: c.Address, DeviceName: c.For.Name, DeviceId: c.For.DeviceID,
	}
	m.CodeKind = kindMessage(c.Kind)
	for _, role := range c.For.Roles {
		m.Roles = append(m.Roles, string(role))
	}
	return m
}

func kindMessage(kind pairing.Kind) palyrav1.PairingKind {
	for m, k := range pairingKinds {
		if k == kind {
			return m
		}
	}
	return palyrav1.PairingKind_PAIRING_KIND_UNSPECIFIED
}
