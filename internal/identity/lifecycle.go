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
)

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

// Standing identifies a member that is to be disabled, enabled or removed.
type Standing struct {
	// Member is as MemberChange.Member.
	Member string
	// Reason is for the journal, at most 500 bytes.
	Reason     string
	AcceptLoss bool
}

// Removal is a removed member with the devices that were revoked with it.
type Removal struct {
	Member  access.Member
	Revoked []Device
}

// UpdateMember adds and removes roles, and changes the owner of an agent. If a role is removed or
// the owner changes, the member's open work ends.
func (s *Service) UpdateMember(ctx context.Context, actor access.Principal, c MemberChange) (access.Member, error) {
	if err := s.permitted(ctx, change.UpdateMember); err != nil {
		return access.Member{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	m, err := s.update(ctx, actor, c)
	if err != nil {
		return access.Member{}, fmt.Errorf("changing a member: %w", err)
	}
	return m, nil
}

func (s *Service) update(ctx context.Context, actor access.Principal, c MemberChange) (access.Member, error) {
	was, err := s.changeable(actor, c.Member, slices.Concat(c.AddRoles, c.RemoveRoles), c.Owner)
	if err != nil {
		return was, err
	}
	m, err := s.changed(was, c)
	if err != nil {
		return was, err
	}
	m = s.withConsent(actor, m)
	if slices.Equal(m.Roles, was.Roles) && m.Owner == was.Owner {
		return was, nil
	}
	if err := s.replaceable(m, c.AcceptLoss, backTo(was, m)); err != nil {
		return was, err
	}
	var d drafts
	d.add(event.MemberChanged, actor, m.Principal.String(), memberChanged{
		Principal: m.Principal, Roles: m.Roles, WasRoles: was.Roles, Owner: m.Owner, WasOwner: was.Owner,
		AwaitsConsent: m.AwaitsConsent,
	})
	if err := s.put(ctx, actor, m, d); err != nil {
		return was, err
	}
	err = s.known(ctx, actor)
	if m.Owner != was.Owner || len(without(was.Roles, m.Roles)) > 0 {
		s.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "the permissions of %s were changed", m.Principal).WithRemedy("Connect again."))
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
func (s *Service) changed(was access.Member, c MemberChange) (access.Member, error) {
	m := was
	if both := without(c.AddRoles, without(c.AddRoles, c.RemoveRoles)); len(both) > 0 {
		return m, reason.Errorf(reason.InvalidInput, "the role %q is to be both added and removed", both[0])
	}
	if err := s.knownRoles(c.AddRoles); err != nil {
		return m, err
	}
	for _, r := range c.RemoveRoles {
		if !s.registry.HasRole(r) && !slices.Contains(was.Roles, r) {
			return m, s.knownRoles([]access.Role{r})
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
	return m, s.checkOwner(m)
}

// DisableMember prevents a member from acting until it is enabled. Its requests, runs and votes
// are not valid while it is disabled, nor are those from a user's agents. The member keeps its
// devices. Disabling twice changes nothing.
func (s *Service) DisableMember(ctx context.Context, actor access.Principal, st Standing) (access.Member, error) {
	return s.stand(ctx, actor, st, true)
}

// EnableMember enables a disabled member. A removed member remains removed.
func (s *Service) EnableMember(ctx context.Context, actor access.Principal, st Standing) (access.Member, error) {
	if err := s.permitted(ctx, change.EnableMember); err != nil {
		return access.Member{}, err
	}
	return s.stand(ctx, actor, st, false)
}

func (s *Service) stand(ctx context.Context, actor access.Principal, st Standing, disabled bool) (access.Member, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	word, back, code := "enabling", "disable", event.MemberEnabled
	if disabled {
		word, back, code = "disabling", "enable", event.MemberDisabled
	}
	m, err := s.standOnce(ctx, actor, st, disabled, back, code)
	if err != nil {
		return access.Member{}, fmt.Errorf("%s a member: %w", word, err)
	}
	return m, nil
}

func (s *Service) standOnce(ctx context.Context, actor access.Principal, st Standing, disabled bool, back string, code event.Code) (access.Member, error) {
	m, err := s.changeableFor(actor, st)
	if err != nil || m.Disabled == disabled {
		return m, err
	}
	m.Disabled = disabled
	if err := s.replaceable(m, st.AcceptLoss, fmt.Sprintf("`palyra members %s %s`", back, m.Principal)); err != nil {
		return m, err
	}
	var d drafts
	d.add(code, actor, m.Principal.String(), memberStands{Principal: m.Principal, Reason: st.Reason})
	if err := s.put(ctx, actor, m, d); err != nil {
		return m, err
	}
	err = s.known(ctx, actor)
	if disabled {
		s.cutAll(m.Principal)
	}
	return m, err
}

// RemoveMember removes a member permanently. Its devices are revoked, and its name is never
// reused, because the journal, votes and grants refer to it. A user's agents must be
// transferred or removed first. Removing twice changes nothing.
func (s *Service) RemoveMember(ctx context.Context, actor access.Principal, st Standing) (Removal, error) {
	if err := s.permitted(ctx, change.RemoveMember); err != nil {
		return Removal{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	r, err := s.remove(ctx, actor, st)
	if err != nil {
		return Removal{}, fmt.Errorf("removing a member: %w", err)
	}
	return r, nil
}

func (s *Service) remove(ctx context.Context, actor access.Principal, st Standing) (Removal, error) {
	m, known, err := s.named(st.Member)
	if err == nil && known && m.Removed() {
		return Removal{Member: m}, s.mayGive(actor, m.Roles)
	}
	if m, err = s.changeableFor(actor, st); err != nil {
		return Removal{}, err
	}
	if agents := s.agentsOf(m.Principal); len(agents) > 0 {
		return Removal{}, reason.Errorf(reason.InvalidInput, "%s is the owner of %s", m.Principal, strings.Join(agents, ", ")).
			WithRemedy("Give each another owner with `palyra members owner AGENT USER`, or remove it; `palyra members disable %s` stops all of them at once.", m.Principal)
	}
	m.Disabled, m.RemovedAt = true, s.instant()
	if err := s.replaceable(m, st.AcceptLoss, ""); err != nil {
		return Removal{}, err
	}
	var d drafts
	r := Removal{Member: m}
	for _, dev := range s.devicesOf(m.Principal) {
		d.revoke(&dev, actor, "its member was removed", m.RemovedAt)
		r.Revoked = append(r.Revoked, dev)
	}
	d.add(event.MemberRemoved, actor, m.Principal.String(), memberRemoved{Principal: m.Principal, Reason: st.Reason, Revoked: ids(r.Revoked)})
	if d.err != nil {
		return Removal{}, d.err
	}
	if err := s.apply(ctx, actor, Change{Members: []access.Member{m}, Devices: r.Revoked, Events: d.list}); err != nil {
		return Removal{}, err
	}
	err = s.known(ctx, actor)
	for _, dev := range r.Revoked {
		s.tellRevoked(dev)
	}
	s.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "%s was removed", m.Principal))
	return r, err
}

func (s *Service) put(ctx context.Context, actor access.Principal, m access.Member, d drafts) error {
	if d.err != nil {
		return d.err
	}
	return s.apply(ctx, actor, Change{Members: []access.Member{m}, Events: d.list})
}

// changeable returns the member to change, if the actor may make the change. given are the
// added or removed roles, and owner is the new owner of an agent. For a new owner, the actor
// must be able to change the agent and both owners. Otherwise an admin could transfer an agent
// to another user and approve its calls.
func (s *Service) changeable(actor access.Principal, name string, given []access.Role, owner access.Principal) (access.Member, error) {
	m, known, err := s.named(name)
	if err != nil {
		return m, err
	}
	// The error must not reveal existing members to an actor without permission to change members.
	roles := slices.Concat(given, m.Roles)
	if !owner.IsZero() && owner != m.Owner {
		// An agent acts in its owner's name.
		for _, p := range []access.Principal{owner, m.Owner} {
			of, _ := s.registry.Get(p)
			roles = append(roles, of.Roles...)
		}
	}
	switch err := s.mayGive(actor, roles); {
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

func (s *Service) changeableFor(actor access.Principal, st Standing) (access.Member, error) {
	if len(st.Reason) > maxReason {
		return access.Member{}, reason.Errorf(reason.InvalidInput, "the reason has %d bytes, the limit is %d", len(st.Reason), maxReason)
	}
	return s.changeable(actor, st.Member, nil, access.Principal{})
}

// replaceable refuses a change after which no owner can act. It also refuses an unaccepted
// change by which a member loses the ability to answer approvals. back is the command that
// reverts the change, or "".
func (s *Service) replaceable(m access.Member, acceptLoss bool, back string) error {
	before := s.registry.List()
	after := slices.Clone(before)
	for i := range after {
		if after[i].Principal == m.Principal {
			m.NoDevice = after[i].NoDevice
			after[i] = m
		}
	}
	if owners(after, access.Member.CanVote) == 0 && owners(before, access.Member.CanVote) > 0 ||
		owners(after, enabled) == 0 && owners(before, enabled) > 0 {
		return reason.Errorf(reason.LastOwner, "%s is the last owner who can act", m.Principal)
	}
	lost := losses(before, after)
	if lost == "" {
		return nil
	}
	if back == "" {
		return s.accepted(lost+" (this cannot be undone: a removed member stays removed)", acceptLoss)
	}
	return s.accepted(fmt.Sprintf("%s (the way back: %s)", lost, back), acceptLoss)
}

func enabled(m access.Member) bool { return !m.Disabled }

// owners counts the owners for whom can returns true.
func owners(members []access.Member, can func(access.Member) bool) (n int) {
	for _, m := range members {
		if m.Holds(access.RoleOwner) && can(m) {
			n++
		}
	}
	return n
}

// known passes the members to policy, even if the change ended its own request. The change
// remains in force after an error.
func (s *Service) known(ctx context.Context, actor access.Principal) error {
	s.mu.RLock()
	fn := s.onChange
	s.mu.RUnlock()
	if fn == nil {
		return nil
	}
	if err := fn(context.WithoutCancel(ctx), actor); err != nil {
		return fmt.Errorf("letting policy know: %w", err)
	}
	return nil
}

// Cut ends the open work of a member, so that no work authorized by its previous state
// continues.
func (s *Service) Cut(p access.Principal, why *reason.Error) {
	for _, dev := range s.devicesOf(p) {
		s.tell(dev, why)
	}
	s.mu.RLock()
	onCut := slices.Clone(s.onCut)
	s.mu.RUnlock()
	for _, fn := range onCut {
		fn(p, why)
	}
}

// cutAll calls Cut for a member that may no longer act, and for its agents.
func (s *Service) cutAll(p access.Principal) {
	for _, m := range s.registry.List() {
		if m.Principal == p || m.Owner == p {
			s.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "%s was disabled", p))
		}
	}
}

// devicesOf returns the devices of a member that were not revoked.
func (s *Service) devicesOf(p access.Principal) []Device {
	return slices.DeleteFunc(s.Devices(), func(d Device) bool { return d.Principal != p || d.Revoked() })
}

// agentsOf returns the agents of a user that were not removed.
func (s *Service) agentsOf(owner access.Principal) (list []string) {
	for _, m := range s.registry.List() {
		if m.Owner == owner && !m.Removed() {
			list = append(list, m.Principal.String())
		}
	}
	return list
}

// without returns the list without the elements of but.
func without(list, but []access.Role) []access.Role {
	return slices.DeleteFunc(slices.Clone(list), func(r access.Role) bool { return slices.Contains(but, r) })
}
