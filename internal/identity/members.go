package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// Members adds members, changes their roles and owners, and disables, enables and removes them.
type Members struct {
	dir       *Directory
	work      *OpenWork
	authority *ca.Authority
	guard     change.Guard
}

// Admission is the result for a new member or device.
type Admission struct {
	Member      access.Member
	Device      Device
	Certificate ca.Issued
}

// MemberChange is a change of a member.
type MemberChange struct {
	// Member is "user:bob", "agent:helper", or only a name: the user of that name, or the agent if
	// no such user exists.
	Member string
	// AddRoles are added and RemoveRoles removed. Adding a role that the member holds, or removing
	// one that it does not hold, changes nothing.
	AddRoles, RemoveRoles []access.Role
	// Owner is the new owner of an agent; zero keeps it.
	Owner access.Principal
	// AcceptLoss means that the actor accepts that members lose the ability to answer approvals.
	AcceptLoss bool
}

// AddMember adds a person or an agent with one device, whose key signed csr. Kind is
// access.KindUser or access.KindAgent. An agent needs an owner; a user has none. Roles MUST be
// built in or declared. An agent decides nothing and holds, of the built-in roles, only
// RoleAgent. Only an owner (or the daemon itself) creates owners and admins. If a member loses
// the ability to answer approvals, the actor must accept that.
func (s *Members) AddMember(ctx context.Context, actor access.Principal, name string, kind access.Kind, roles []access.Role, owner access.Principal, csr []byte, acceptLoss bool) (Admission, error) {
	if err := permitted(ctx, s.guard, change.AddMember); err != nil {
		return Admission{}, err
	}
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	m := access.Member{Principal: access.Principal{Kind: kind, Name: name}, Owner: owner, Roles: tidy(roles), CreatedAt: s.dir.instant()}
	if err := checkMember(s.dir.registry, m); err != nil {
		return Admission{}, err
	}
	if err := mayGive(s.dir.registry, actor, m.Roles); err != nil {
		return Admission{}, err
	}
	switch was, ok := s.dir.registry.Get(m.Principal); {
	case ok && was.Removed():
		return Admission{}, reason.Errorf(reason.AlreadyExists, "a removed member had the name %s, which the journal, votes and grants still use", m.Principal).
			WithRemedy("Choose another name.")
	case ok:
		return Admission{}, reason.Errorf(reason.AlreadyExists, "the member %s already exists", m.Principal)
	}
	if err := accepted(lossOfAdding(s.dir.registry, m), acceptLoss); err != nil {
		return Admission{}, err
	}
	m = s.dir.withConsent(actor, m)
	dev, err := s.dir.newDevice(m.Principal, m.Principal.Name)
	if err != nil {
		return Admission{}, err
	}
	return s.admit(ctx, actor, m, dev, csr, &drafts{})
}

// admit issues the certificate and commits member, device and events. d may contain events that
// precede these events.
func (s *Members) admit(ctx context.Context, actor access.Principal, m access.Member, dev Device, csr []byte, d *drafts) (Admission, error) {
	cert, err := s.authority.IssueDevice(csr, dev.ID)
	if err != nil {
		return Admission{}, fmt.Errorf("adding %s: %w", m.Principal, err)
	}
	dev.holds(cert, s.dir.now())
	d.member(actor, m)
	d.certificate(actor, dev, cert, false)
	err = s.dir.apply(ctx, actor, Change{NewMembers: []access.Member{m}, NewDevices: []Device{dev}}, *d)
	if err != nil {
		return Admission{}, fmt.Errorf("adding %s: %w", m.Principal, err)
	}
	return Admission{Member: m, Device: dev, Certificate: cert}, nil
}

// UpdateMember adds and removes roles, and changes the owner of an agent. If a role is removed or
// the owner changes, the member's open work ends.
func (s *Members) UpdateMember(ctx context.Context, actor access.Principal, c MemberChange) (access.Member, error) {
	if err := permitted(ctx, s.guard, change.UpdateMember); err != nil {
		return access.Member{}, err
	}
	return locked(s.dir, "changing a member", func() (access.Member, error) { return s.update(ctx, actor, c) })
}

func (s *Members) update(ctx context.Context, actor access.Principal, c MemberChange) (access.Member, error) {
	was, err := s.changeable(actor, c.Member, slices.Concat(c.AddRoles, c.RemoveRoles), c.Owner)
	if err != nil {
		return was, err
	}
	m, err := s.changed(was, c)
	if err != nil {
		return was, err
	}
	m = s.dir.withConsent(actor, m)
	if slices.Equal(m.Roles, was.Roles) && m.Owner == was.Owner {
		return was, nil
	}
	if err := replaceable(s.dir.registry, m, c.AcceptLoss, backTo(was, m)); err != nil {
		return was, err
	}
	var d drafts
	d.add(event.MemberChanged, actor, m.Principal.String(), memberChanged{
		Principal: m.Principal, Roles: m.Roles, WasRoles: was.Roles, Owner: m.Owner, WasOwner: was.Owner,
		AwaitsConsent: m.AwaitsConsent,
	})
	if err := s.dir.apply(ctx, actor, Change{Members: []access.Member{m}}, d); err != nil {
		return was, err
	}
	err = s.dir.publish(ctx, actor)
	if m.Owner != was.Owner || len(without(was.Roles, m.Roles)) > 0 {
		s.work.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "the permissions of %s were changed", m.Principal).WithRemedy("Connect again."))
	}
	return m, err
}

// backTo returns the command that undoes a change of roles.
func backTo(was, m access.Member) string {
	words := []string{"palyra members roles", m.Principal.String()}
	for _, r := range without(was.Roles, m.Roles) {
		words = append(words, "--add", string(r))
	}
	for _, r := range without(m.Roles, was.Roles) {
		words = append(words, "--remove", string(r))
	}
	return "`" + strings.Join(words, " ") + "`"
}

// changed returns the member as it will be after the change.
func (s *Members) changed(was access.Member, c MemberChange) (access.Member, error) {
	m := was
	if both := without(c.AddRoles, without(c.AddRoles, c.RemoveRoles)); len(both) > 0 {
		return m, reason.Errorf(reason.InvalidInput, "the role %q is to be both added and removed", both[0])
	}
	if err := knownRoles(s.dir.registry, c.AddRoles); err != nil {
		return m, err
	}
	for _, r := range c.RemoveRoles {
		if !s.dir.registry.HasRole(r) && !slices.Contains(was.Roles, r) {
			return m, knownRoles(s.dir.registry, []access.Role{r})
		}
	}
	m.Roles = tidy(slices.Concat(without(was.Roles, c.RemoveRoles), c.AddRoles))
	if len(m.Roles) == 0 {
		return m, reason.Errorf(reason.InvalidInput, "%s would hold no role", m.Principal).
			WithRemedy("Give another role with it, or use `palyra members disable %s`.", m.Principal)
	}
	if err := checkKind(m); err != nil {
		return m, err
	}
	if c.Owner.IsZero() || c.Owner == was.Owner {
		return m, nil
	}
	m.Owner = c.Owner
	return m, checkOwner(s.dir.registry, m)
}

// changeable returns the member to change, if the actor may make the change. given are the
// added or removed roles, and owner is the new owner of an agent. For a new owner, the actor
// must be able to change the agent and both owners. Otherwise an admin could transfer an agent
// to another user and approve its calls.
func (s *Members) changeable(actor access.Principal, name string, given []access.Role, owner access.Principal) (access.Member, error) {
	m, known, err := memberNamed(s.dir.registry, name)
	if err != nil {
		return m, err
	}
	// The error must not reveal existing members to an actor without permission to change members.
	roles := slices.Concat(given, m.Roles)
	if !owner.IsZero() && owner != m.Owner {
		// An agent acts in its owner's name.
		for _, p := range []access.Principal{owner, m.Owner} {
			of, _ := s.dir.registry.Get(p)
			roles = append(roles, of.Roles...)
		}
	}
	switch err := mayGive(s.dir.registry, actor, roles); {
	case err != nil:
		return m, err
	case !known:
		return m, reason.Errorf(reason.NotFound, "member %s not found", name).WithRemedy("See `palyra members list`.")
	case m.Removed():
		return m, reason.Errorf(reason.NotFound, "%s was removed permanently at %s", m.Principal, m.RemovedAt.Format("2006-01-02 15:04:05Z07:00")).
			WithRemedy("Add a member with another name: `palyra members add NAME --role ROLE`.")
	}
	return m, nil
}
