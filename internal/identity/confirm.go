package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

// History returns the acts on members, oldest first.
func (s *Service) History() provenance.History {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.history)
}

// acts returns the acts of a change on members (provenance.Table). Renewing, renaming or
// revoking is not an act, because it gives no key to another holder.
func (s *Service) acts(actor access.Principal, c Change) (acts provenance.History) {
	by := s.authors(actor)
	add := func(kind provenance.Kind, p access.Principal) {
		if !slices.ContainsFunc(acts, func(a provenance.Act) bool { return a.Member == p }) {
			acts = append(acts, provenance.Act{Member: p, Kind: kind, By: by, At: s.instant()})
		}
	}
	for _, m := range c.NewMembers {
		add(provenance.Made, m.Principal)
	}
	if !c.consent { // a consent gives no key to another holder
		for _, m := range c.Members {
			add(provenance.Changed, m.Principal)
		}
	}
	for _, d := range c.NewDevices {
		if d.Session() {
			continue // like a renewal: the user of the identity provider already has access
		}
		add(provenance.DeviceGiven, d.Principal)
	}
	return acts
}

// authors returns the possible authors of an act by an actor. An act on the gateway's host
// could come from every member that holds a device there. An act of the identity provider has
// no author, because the administrator of the host chose the provider.
func (s *Service) authors(actor access.Principal) []access.Principal {
	switch actor {
	case Daemon():
	case Provider():
		return nil
	default:
		return []access.Principal{actor}
	}
	var holders []access.Principal
	for _, d := range s.Devices() {
		if d.Local && !slices.Contains(holders, d.Principal) {
			holders = append(holders, d.Principal)
		}
	}
	return holders
}

// ConfirmMember confirms the identity of a member. The member then counts as independent again
// for all principals that do not control the actor. The daemon as the actor is the
// administrator of the gateway's host, whose confirmation counts for everyone. A member cannot
// confirm itself.
func (s *Service) ConfirmMember(ctx context.Context, actor access.Principal, name string) (access.Member, error) {
	if err := s.permitted(ctx, change.ConfirmMember); err != nil {
		return access.Member{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	m, err := s.confirm(ctx, actor, name)
	if err != nil {
		return access.Member{}, fmt.Errorf("confirming a member: %w", err)
	}
	return m, nil
}

func (s *Service) confirm(ctx context.Context, actor access.Principal, name string) (access.Member, error) {
	if err := s.mayGive(actor, nil); err != nil {
		return access.Member{}, err
	}
	m, known, err := s.named(name)
	switch {
	case err != nil:
		return m, err
	case !known || m.Removed():
		return m, unknownMember(name)
	case m.Principal == actor:
		return m, reason.Errorf(reason.PermissionDenied, "members cannot confirm themselves").
			WithRemedy("Ask another owner or admin, or confirm %s on the gateway's host: `palyrad members confirm %s`.", actor, actor.Name)
	}
	if err := s.counts(actor, m.Principal); err != nil {
		return m, err
	}
	if err := s.confirmAll(ctx, actor, []access.Principal{m.Principal}); err != nil {
		return m, err
	}
	return m, s.known(ctx, actor)
}

// ConfirmOnHost confirms members on behalf of the gateway's host, whose confirmation counts for
// every principal. It confirms the members with the given names or principals, or all members if
// names is empty. It confirms either all of them, with one event, or none. The caller MUST have
// checked that the administrator of the host sent the request.
func (s *Service) ConfirmOnHost(ctx context.Context, names []string) ([]access.Principal, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	members, err := s.membersNamed(names)
	if err == nil {
		err = s.confirmAll(ctx, Daemon(), members)
	}
	if err == nil {
		err = s.known(ctx, Daemon())
	}
	if err != nil {
		return nil, fmt.Errorf("confirming members: %w", err)
	}
	return members, nil
}

// membersNamed returns the members with the names, without duplicates. Without names it returns
// all members that were not removed.
func (s *Service) membersNamed(names []string) (members []access.Principal, err error) {
	for _, name := range names {
		m, known, err := s.named(name)
		switch {
		case err != nil:
			return nil, err
		case !known || m.Removed():
			return nil, unknownMember(name)
		case !slices.Contains(members, m.Principal):
			members = append(members, m.Principal)
		}
	}
	if len(names) == 0 {
		for _, m := range s.registry.List() {
			if !m.Removed() {
				members = append(members, m.Principal)
			}
		}
	}
	return members, nil
}

func unknownMember(name string) error {
	return reason.Errorf(reason.NotFound, "member %s does not exist", name).WithRemedy("See `palyra members list`.")
}

// counts refuses a confirmation without effect: one that would not reduce the number of
// principals that control the member.
func (s *Service) counts(actor, member access.Principal) error {
	history := s.History()
	before := history.Controllers()[member]
	confirmation := provenance.Act{Member: member, Kind: provenance.Confirmed}
	if actor != Daemon() {
		confirmation.By = []access.Principal{actor}
	}
	if len(before) == 0 || len(append(history, confirmation).Controllers()[member]) < len(before) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s is controlled by %s, and so is %s: the confirmation would have no effect", member, named(before), actor).
		WithRemedy("Ask an owner or admin who is not under the same control to confirm it, or confirm it on the gateway's host: `palyrad members confirm %s`.", member.Name)
}

// named formats principals as a list in a sentence.
func named(list []access.Principal) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.String()
	}
	return strings.Join(names, " and ")
}

// confirmAll applies confirmations, with one event that lists them.
func (s *Service) confirmAll(ctx context.Context, actor access.Principal, members []access.Principal) error {
	var by []access.Principal
	if actor != Daemon() {
		by = []access.Principal{actor}
	}
	c := Change{}
	for _, p := range members {
		c.Acts = append(c.Acts, provenance.Act{Member: p, Kind: provenance.Confirmed, By: by, At: s.instant()})
	}
	subject := ""
	if len(members) == 1 {
		subject = members[0].String()
	}
	var d drafts
	d.add(event.MembersConfirmed, actor, subject, membersConfirmed{Members: members, Host: len(by) == 0})
	if c.Events = d.list; d.err != nil {
		return d.err
	}
	return s.apply(ctx, actor, c)
}

// Confirmed returns the members that the gateway's host confirmed in the last seven days.
func (s *Service) Confirmed() []access.Principal {
	since := s.now().Add(-noticePeriod)
	var list []access.Principal
	for _, act := range s.History() {
		if act.Kind == provenance.Confirmed && len(act.By) == 0 && act.At.After(since) && !slices.Contains(list, act.Member) {
			list = append(list, act.Member)
		}
	}
	return list
}
