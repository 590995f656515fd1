package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

// History is what was done to the members, the oldest act first.
func (s *Service) History() provenance.History {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.history)
}

// acts are what a change does to members (provenance.Table). To renew, rename or revoke one is not: none of it puts a key into other
// hands.
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
	if !c.consent { // which puts no key into other hands
		for _, m := range c.Members {
			add(provenance.Changed, m.Principal)
		}
	}
	for _, d := range c.NewDevices {
		if d.Session() {
			continue // like a renewal: whoever is the person at the provider has it
		}
		add(provenance.DeviceGiven, d.Principal)
	}
	return acts
}

// authors are those who could be behind an actor. What is done on the gateway's host
// could be done by every member that holds a device there. What the identity provider
// says is nobody's: the administrator of the host chose it.
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

// ConfirmMember says that a member is who it is said to be, so that it counts as a
// person of its own again for everybody in whose hands the actor is not. The daemon
// as the actor is the administrator of the gateway's host, whose word counts for
// everybody. Nobody confirms themselves.
func (s *Service) ConfirmMember(ctx context.Context, actor access.Principal, name string) (access.Member, error) {
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
		return m, reason.Errorf(reason.NotFound, "there is no member %s", name).WithRemedy("See `palyra members list`.")
	case m.Principal == actor:
		return m, reason.Errorf(reason.PermissionDenied, "nobody confirms themselves").
			WithRemedy("Ask another owner or admin, or confirm %s on the gateway's host while palyrad is stopped: `palyrad members confirm %s`.", actor, actor.Name)
	}
	if err := s.counts(actor, m.Principal); err != nil {
		return m, err
	}
	if err := s.confirmAll(ctx, actor, []access.Principal{m.Principal}, ""); err != nil {
		return m, err
	}
	return m, s.known(ctx, actor)
}

// counts refuses a word that changes nothing: one of somebody who is in the same
// hands as the member.
func (s *Service) counts(actor, member access.Principal) error {
	history := s.History()
	before := history.Hands()[member]
	word := provenance.Act{Member: member, Kind: provenance.Confirmed}
	if actor != Daemon() {
		word.By = []access.Principal{actor}
	}
	if len(before) == 0 || len(append(history, word).Hands()[member]) < len(before) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s is in hands of %s, and so is %s: the word changes nothing", member, named(before), actor).
		WithRemedy("Have an owner or admin confirm it whom they neither made nor changed, or confirm it on the gateway's host while palyrad is stopped: `palyrad members confirm %s`.", member.Name)
}

// named lists principals in a sentence.
func named(list []access.Principal) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.String()
	}
	return strings.Join(names, " and ")
}

// confirmAll makes confirmations durable, with one event that lists them.
func (s *Service) confirmAll(ctx context.Context, actor access.Principal, members []access.Principal, why string) error {
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
	d.add(event.MembersConfirmed, actor, subject, membersConfirmed{Members: members, Host: len(by) == 0, Reason: why})
	if c.Events = d.list; d.err != nil {
		return d.err
	}
	return s.apply(ctx, actor, c)
}

// confirmOlder confirms the members that a release made which kept no history of
// them: nobody can tell any more who made whom.
func (s *Service) confirmOlder(ctx context.Context) error {
	list := s.registry.List()
	if len(s.history) > 0 || len(list) == 0 {
		return nil
	}
	members := make([]access.Principal, len(list))
	for i, m := range list {
		members[i] = m.Principal
	}
	return s.confirmAll(ctx, Daemon(), members, "an older release kept no history of them")
}

// Confirmed are the members that the gateway's host confirmed in the last seven days.
func (s *Service) Confirmed() []access.Principal {
	since := s.now().Add(-told)
	var list []access.Principal
	for _, act := range s.History() {
		if act.Kind == provenance.Confirmed && len(act.By) == 0 && act.At.After(since) && !slices.Contains(list, act.Member) {
			list = append(list, act.Member)
		}
	}
	return list
}
