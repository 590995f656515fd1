package identity

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// Admission is the result for a new member or device.
type Admission struct {
	Member      access.Member
	Device      Device
	Certificate ca.Issued
}

// AddMember adds a person or an agent with one device, whose key signed csr. Kind is
// access.KindUser or access.KindAgent. An agent needs an owner; a user has none. Roles MUST be
// built in or declared. An agent decides nothing and holds, of the built-in roles, only
// RoleAgent. Only an owner (or the daemon itself) creates owners and admins. If a member loses
// the ability to answer approvals, the actor must accept that.
func (s *Service) AddMember(ctx context.Context, actor access.Principal, name string, kind access.Kind, roles []access.Role, owner access.Principal, csr []byte, acceptLoss bool) (Admission, error) {
	if err := s.permitted(ctx, change.AddMember); err != nil {
		return Admission{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	m := access.Member{Principal: access.Principal{Kind: kind, Name: name}, Owner: owner, Roles: tidy(roles), CreatedAt: s.instant()}
	if err := s.checkMember(m); err != nil {
		return Admission{}, err
	}
	if err := s.mayGive(actor, m.Roles); err != nil {
		return Admission{}, err
	}
	switch was, ok := s.registry.Get(m.Principal); {
	case ok && was.Removed():
		return Admission{}, reason.Errorf(reason.AlreadyExists, "a removed member had the name %s, which the journal, votes and grants still use", m.Principal).
			WithRemedy("Choose another name.")
	case ok:
		return Admission{}, reason.Errorf(reason.AlreadyExists, "the member %s already exists", m.Principal)
	}
	if err := s.accepted(s.lossOfAdding(m), acceptLoss); err != nil {
		return Admission{}, err
	}
	m = s.withConsent(actor, m)
	dev, err := s.newDevice(m.Principal, m.Principal.Name)
	if err != nil {
		return Admission{}, err
	}
	return s.admit(ctx, actor, m, dev, csr, &drafts{})
}

// admit issues the certificate and commits member, device and events. d may contain events that
// precede these events.
func (s *Service) admit(ctx context.Context, actor access.Principal, m access.Member, dev Device, csr []byte, d *drafts) (Admission, error) {
	cert, err := s.authority.IssueDevice(csr, dev.ID)
	if err != nil {
		return Admission{}, fmt.Errorf("adding %s: %w", m.Principal, err)
	}
	dev.holds(cert, s.now())
	d.member(actor, m)
	d.certificate(actor, dev, cert, false)
	if d.err != nil {
		return Admission{}, d.err
	}
	err = s.apply(ctx, actor, Change{NewMembers: []access.Member{m}, NewDevices: []Device{dev}, Events: d.list})
	if err != nil {
		return Admission{}, fmt.Errorf("adding %s: %w", m.Principal, err)
	}
	return Admission{Member: m, Device: dev, Certificate: cert}, nil
}

func (s *Service) checkMember(m access.Member) error {
	if _, err := access.ParsePrincipal(m.Principal.String()); err != nil {
		return reason.Errorf(reason.InvalidInput, "member: %w", err)
	}
	if len(m.Roles) == 0 {
		return reason.Errorf(reason.InvalidInput, "%s has no role", m.Principal)
	}
	if err := s.knownRoles(m.Roles); err != nil {
		return err
	}
	if err := checkKind(m); err != nil {
		return err
	}
	return s.checkOwner(m)
}

// knownRoles refuses a role that is neither built in nor declared.
func (s *Service) knownRoles(roles []access.Role) error {
	for _, r := range roles {
		if !s.registry.HasRole(r) {
			return reason.Errorf(reason.InvalidInput, "role %q does not exist", r).
				WithRemedy("Use one of %v, or declare it in palyra.toml.", s.registry.Roles())
		}
	}
	return nil
}

// checkKind refuses roles that the kind of a member must not hold.
func checkKind(m access.Member) error {
	switch m.Principal.Kind {
	case access.KindUser:
		if slices.Contains(m.Roles, access.RoleAgent) {
			return reason.Errorf(reason.InvalidInput, "%s would be a user with the role of agents, but an agent acts for an owner", m.Principal).
				WithRemedy("Name the owner of the agent: `palyrad operator add %s --role agent --owner USER`.", m.Principal.Name)
		}
		return nil
	case access.KindAgent:
		for _, r := range m.Roles {
			if !r.For(access.KindAgent) {
				return reason.Errorf(reason.InvalidInput, "%s cannot hold the role %q: an agent runs tools and makes no decisions", m.Principal, r)
			}
		}
		return nil
	default:
		return reason.Errorf(reason.InvalidInput, "%s: a member is a user or an agent", m.Principal)
	}
}

// checkOwner requires an owner for an agent, and none for a user.
func (s *Service) checkOwner(m access.Member) error {
	if m.Principal.Kind == access.KindUser {
		if !m.Owner.IsZero() {
			return reason.Errorf(reason.InvalidInput, "%s is a user and has no owner", m.Principal)
		}
		return nil
	}
	owner, ok := s.registry.Get(m.Owner)
	if !ok || owner.Disabled || owner.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.InvalidInput, "%s needs an owner that is an active user; %q is not one", m.Principal, m.Owner.String())
	}
	return nil
}

// mayGive is a second check in addition to the API's permissions: an actor cannot give a member
// more permissions than it has itself.
func (s *Service) mayGive(actor access.Principal, roles []access.Role) error {
	if actor == Daemon() {
		return nil
	}
	m, ok := s.registry.Active(actor)
	switch {
	case ok && m.Holds(access.RoleOwner):
		return nil
	case !ok || !m.Holds(access.RoleAdmin):
		return reason.Errorf(reason.PermissionDenied, "%s may not change members", actor)
	case slices.Contains(roles, access.RoleOwner) || slices.Contains(roles, access.RoleAdmin):
		return reason.Errorf(reason.PermissionDenied, "only an owner changes owners and admins")
	}
	return nil
}

// tidy sorts roles and removes duplicates, so that events can be compared.
func tidy(roles []access.Role) []access.Role {
	out := append(make([]access.Role, 0, len(roles)), roles...)
	slices.Sort(out)
	return slices.Compact(out)
}
