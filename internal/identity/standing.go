package identity

import (
	"context"
	"fmt"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

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

// DisableMember prevents a member from acting until it is enabled. Its requests, runs and votes
// are not valid while it is disabled, nor are those from a user's agents. The member keeps its
// devices. Disabling twice changes nothing.
func (s *Members) DisableMember(ctx context.Context, actor access.Principal, st Standing) (access.Member, error) {
	return s.stand(ctx, actor, st, true)
}

// EnableMember enables a disabled member. A removed member remains removed.
func (s *Members) EnableMember(ctx context.Context, actor access.Principal, st Standing) (access.Member, error) {
	if err := permitted(ctx, s.guard, change.EnableMember); err != nil {
		return access.Member{}, err
	}
	return s.stand(ctx, actor, st, false)
}

func (s *Members) stand(ctx context.Context, actor access.Principal, st Standing, disabled bool) (access.Member, error) {
	word, back, code := "enabling", "disable", event.MemberEnabled
	if disabled {
		word, back, code = "disabling", "enable", event.MemberDisabled
	}
	return locked(s.dir, word+" a member", func() (access.Member, error) {
		return s.standOnce(ctx, actor, st, disabled, back, code)
	})
}

func (s *Members) standOnce(ctx context.Context, actor access.Principal, st Standing, disabled bool, back string, code event.Code) (access.Member, error) {
	m, err := s.changeableFor(actor, st)
	if err != nil || m.Disabled == disabled {
		return m, err
	}
	m.Disabled = disabled
	if err := replaceable(s.dir.registry, m, st.AcceptLoss, fmt.Sprintf("`palyra members %s %s`", back, m.Principal)); err != nil {
		return m, err
	}
	var d drafts
	d.add(code, actor, m.Principal.String(), memberStands{Principal: m.Principal, Reason: st.Reason})
	if err := s.dir.apply(ctx, actor, Change{Members: []access.Member{m}}, d); err != nil {
		return m, err
	}
	err = s.dir.publish(ctx, actor)
	if disabled {
		s.work.cutWithAgents(m.Principal)
	}
	return m, err
}

// RemoveMember removes a member permanently. Its devices are revoked, and its name is never
// reused, because the journal, votes and grants refer to it. A user's agents must be
// transferred or removed first. Removing twice changes nothing.
func (s *Members) RemoveMember(ctx context.Context, actor access.Principal, st Standing) (Removal, error) {
	if err := permitted(ctx, s.guard, change.RemoveMember); err != nil {
		return Removal{}, err
	}
	return locked(s.dir, "removing a member", func() (Removal, error) { return s.remove(ctx, actor, st) })
}

func (s *Members) remove(ctx context.Context, actor access.Principal, st Standing) (Removal, error) {
	m, known, err := memberNamed(s.dir.registry, st.Member)
	if err == nil && known && m.Removed() {
		return Removal{Member: m}, mayGive(s.dir.registry, actor, m.Roles)
	}
	if m, err = s.changeableFor(actor, st); err != nil {
		return Removal{}, err
	}
	if agents := agentsOf(s.dir.registry, m.Principal); len(agents) > 0 {
		return Removal{}, reason.Errorf(reason.InvalidInput, "%s is the owner of %s", m.Principal, strings.Join(agents, ", ")).
			WithRemedy("Give each another owner with `palyra members owner AGENT USER`, or remove it; `palyra members disable %s` stops all of them at once.", m.Principal)
	}
	m.Disabled, m.RemovedAt = true, s.dir.instant()
	if err := replaceable(s.dir.registry, m, st.AcceptLoss, ""); err != nil {
		return Removal{}, err
	}
	var d drafts
	r := Removal{Member: m}
	for _, dev := range s.dir.devicesOf(m.Principal) {
		d.revoke(&dev, actor, "its member was removed", m.RemovedAt)
		r.Revoked = append(r.Revoked, dev)
	}
	d.add(event.MemberRemoved, actor, m.Principal.String(), memberRemoved{Principal: m.Principal, Reason: st.Reason, Revoked: ids(r.Revoked)})
	if err := s.dir.apply(ctx, actor, Change{Members: []access.Member{m}, Devices: r.Revoked}, d); err != nil {
		return Removal{}, err
	}
	err = s.dir.publish(ctx, actor)
	for _, dev := range r.Revoked {
		s.work.endRevoked(dev)
	}
	s.work.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "%s was removed", m.Principal))
	return r, err
}

func (s *Members) changeableFor(actor access.Principal, st Standing) (access.Member, error) {
	if len(st.Reason) > maxReason {
		return access.Member{}, reason.Errorf(reason.InvalidInput, "the reason has %d bytes, the limit is %d", len(st.Reason), maxReason)
	}
	return s.changeable(actor, st.Member, nil, access.Principal{})
}
