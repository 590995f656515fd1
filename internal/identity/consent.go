package identity

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Consent is an owner's decision about its agent.
type Consent struct {
	// Agent is as MemberChange.Member.
	Agent string
	// Withdraw withdraws consent: the agent waits again, and its open work ends.
	Withdraw bool
}

// ConsentToAgent gives or withdraws the owner's consent for an agent to act in its name. Only
// the owner may call it, with its own device: no token, agent, admin or operator on the
// gateway's host may do so. Repeating a call changes nothing. The host needs no such operation,
// because an owner without a device gets one there (`palyrad operator bundle`).
func (s *Service) ConsentToAgent(ctx context.Context, by access.Caller, c Consent) (access.Member, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	m, err := s.consent(ctx, by, c)
	if err != nil {
		return access.Member{}, fmt.Errorf("consenting to an agent: %w", err)
	}
	return m, nil
}

func (s *Service) consent(ctx context.Context, by access.Caller, c Consent) (access.Member, error) {
	m, known, err := s.named(c.Agent)
	switch {
	case err != nil:
		return m, err
	// The error does not reveal whether another member has such an agent.
	case !known || m.Removed() || m.Principal.Kind != access.KindAgent || m.Owner != by.Principal:
		return m, reason.Errorf(reason.NotFound, "%s has no agent %s", by.Principal, c.Agent).
			WithRemedy("Only the owner of an agent consents; `palyra status` of the owner names the agents that wait.")
	}
	if err := s.ownDevice(by); err != nil {
		return m, err
	}
	if m.AwaitsConsent == c.Withdraw {
		return m, nil
	}
	m.AwaitsConsent = c.Withdraw
	code := event.ConsentGiven
	if c.Withdraw {
		code = event.ConsentWithdrawn
	}
	var d drafts
	d.add(code, by.Principal, m.Principal.String(), agentConsent{Principal: m.Principal, Owner: m.Owner})
	if d.err != nil {
		return m, d.err
	}
	if err := s.apply(ctx, by.Principal, Change{Members: []access.Member{m}, Events: d.list, consent: true}); err != nil {
		return m, err
	}
	err = s.known(ctx, by.Principal)
	if c.Withdraw {
		s.Cut(m.Principal, m.Waiting())
	}
	return m, err
}

// ownDevice refuses a caller that does not have the certificate of a live device.
func (s *Service) ownDevice(by access.Caller) error {
	dev, err := s.live(by.DeviceID)
	if by.Token == nil && by.Paired && err == nil && dev.Principal == by.Principal {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s can consent only with a device of their own", by.Principal).
		WithRemedy("Use the credential of a device: add `--credentials DIR` to the command.")
}

// OwnWord returns nil if the caller certainly acts for its own member: with its own device,
// which is not revoked, while no other principal controls the member. Every consent by which
// another party acts for a member requires this, such as mapping a chat account: a later
// confirmation does not undo an earlier consent.
func (s *Service) OwnWord(by access.Caller) error {
	if err := s.ownDevice(by); err != nil {
		return err
	}
	held := s.History().Controllers()[by.Principal]
	if len(held) == 0 {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s made or changed %s, or gave it a device, and could consent in its name", named(held), by.Principal).
		WithRemedy("Have a member whom neither created confirm it first: `palyra members confirm %s`, or on the gateway's host `palyrad members confirm %[1]s`. Then consent again.", by.Principal.Name)
}

// Waiting returns the agents of an owner for which only the owner's consent is missing.
func (s *Service) Waiting(owner access.Principal) []access.Principal {
	var list []access.Principal
	for _, m := range s.registry.List() {
		if m.Owner == owner && s.waits(m.Principal) {
			list = append(list, m.Principal)
		}
	}
	return list
}

// waits reports whether a member cannot act only because consent is missing.
func (s *Service) waits(p access.Principal) bool {
	m, active := s.registry.Active(p)
	return !active && m.AwaitsConsent
}

// withConsent returns an agent after the actor created it or changed its owner. The owner's own
// act implies consent, an act of another principal does not. An act on the gateway's host
// implies consent only if no other member holds a device there. Other changes keep the consent.
func (s *Service) withConsent(actor access.Principal, m access.Member) access.Member {
	was, known := s.registry.Get(m.Principal)
	switch {
	case m.Principal.Kind != access.KindAgent:
		m.AwaitsConsent = false
	case known && was.Owner == m.Owner:
		m.AwaitsConsent = was.AwaitsConsent
	default:
		m.AwaitsConsent = !slices.Equal(s.authors(actor), []access.Principal{m.Owner})
	}
	return m
}

// settleConsent enforces consent on every change, regardless of the requester.
func (s *Service) settleConsent(actor access.Principal, c *Change) {
	if c.consent {
		return
	}
	for _, list := range [][]access.Member{c.NewMembers, c.Members} {
		for i, m := range list {
			list[i] = s.withConsent(actor, m)
		}
	}
}
