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

// Confirmations records which members a person or the gateway's host has identified.
type Confirmations struct {
	dir   *Directory
	guard change.Guard
}

// ConfirmMember confirms the identity of a member. The member then counts as independent again
// for all principals that do not control the actor. The daemon as the actor is the
// administrator of the gateway's host, whose confirmation counts for everyone. A member cannot
// confirm itself.
func (s *Confirmations) ConfirmMember(ctx context.Context, actor access.Principal, name string) (access.Member, error) {
	if err := permitted(ctx, s.guard, change.ConfirmMember); err != nil {
		return access.Member{}, err
	}
	return locked(s.dir, "confirming a member", func() (access.Member, error) { return s.confirm(ctx, actor, name) })
}

func (s *Confirmations) confirm(ctx context.Context, actor access.Principal, name string) (access.Member, error) {
	if err := mayGive(s.dir.registry, actor, nil); err != nil {
		return access.Member{}, err
	}
	m, known, err := memberNamed(s.dir.registry, name)
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
	return m, s.dir.publish(ctx, actor)
}

// ConfirmOnHost confirms members on behalf of the gateway's host, whose confirmation counts for
// every principal. It confirms the members with the given names or principals, or all members if
// names is empty. It confirms either all of them, with one event, or none. The caller MUST have
// checked that the administrator of the host sent the request.
func (s *Confirmations) ConfirmOnHost(ctx context.Context, names []string) ([]access.Principal, error) {
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	members, err := s.membersNamed(names)
	if err == nil {
		err = s.confirmAll(ctx, Daemon(), members)
	}
	if err == nil {
		err = s.dir.publish(ctx, Daemon())
	}
	if err != nil {
		return nil, fmt.Errorf("confirming members: %w", err)
	}
	return members, nil
}

// membersNamed returns the members with the names, without duplicates. Without names it returns
// all members that were not removed.
func (s *Confirmations) membersNamed(names []string) (members []access.Principal, err error) {
	for _, name := range names {
		m, known, err := memberNamed(s.dir.registry, name)
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
		for _, m := range s.dir.registry.List() {
			if !m.Removed() {
				members = append(members, m.Principal)
			}
		}
	}
	return members, nil
}

// counts refuses a confirmation without effect: one that would not reduce the number of
// principals that control the member.
func (s *Confirmations) counts(actor, member access.Principal) error {
	history := s.dir.History()
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
func (s *Confirmations) confirmAll(ctx context.Context, actor access.Principal, members []access.Principal) error {
	var by []access.Principal
	if actor != Daemon() {
		by = []access.Principal{actor}
	}
	c := Change{}
	for _, p := range members {
		c.Acts = append(c.Acts, provenance.Act{Member: p, Kind: provenance.Confirmed, By: by, At: s.dir.instant()})
	}
	subject := ""
	if len(members) == 1 {
		subject = members[0].String()
	}
	var d drafts
	d.add(event.MembersConfirmed, actor, subject, membersConfirmed{Members: members, Host: len(by) == 0})
	return s.dir.apply(ctx, actor, c, d)
}
