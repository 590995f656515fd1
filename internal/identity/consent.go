package identity

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Consent is what an agent's owner says of it.
type Consent struct {
	// Agent is as in MemberChange.
	Agent string
	// Withdraw takes consent back: the agent waits again, and what it has open ends.
	Withdraw bool
}

// ConsentToAgent lets an agent act in the name of its owner, or no longer. Only the
// owner may say so, with a device of their own: no token, no agent, no admin and
// nobody on the gateway's host says it for them. To say the same twice changes
// nothing.
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
	// Whether there is an agent of somebody else is not told.
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

// ownDevice refuses a caller who shows less than the certificate of a live device.
func (s *Service) ownDevice(by access.Caller) error {
	dev, err := s.live(by.DeviceID)
	if by.Token == nil && by.Paired && err == nil && dev.Principal == by.Principal {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s consents with a device of their own, and with nothing less", by.Principal).
		WithRemedy("Use the credential of a device: add `--credentials DIR` to the command.")
}

// OwnWord returns nil if the caller speaks for its member alone: with a live device of its
// own, while no other principal made or controls the member. Everything that speaks for a
// member by its consent requires this, such as an account in a chat: a later confirmation
// does not undo an earlier consent.
func (s *Service) OwnWord(by access.Caller) error {
	if err := s.ownDevice(by); err != nil {
		return err
	}
	held := s.History().Hands()[by.Principal]
	if len(held) == 0 {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s made or changed %s, or gave it a device, and could consent in its name", named(held), by.Principal).
		WithRemedy("Have somebody whom neither made confirm it first: `palyra members confirm %s`, or on the gateway's host while palyrad is stopped `palyrad members confirm %[1]s`. Then consent again.", by.Principal.Name)
}

// Waiting are the agents of an owner that wait for consent and could act with it.
func (s *Service) Waiting(owner access.Principal) []access.Principal {
	var list []access.Principal
	for _, m := range s.registry.List() {
		if m.Owner == owner && s.waits(m.Principal) {
			list = append(list, m.Principal)
		}
	}
	return list
}

// waits reports whether nothing but consent keeps a member from acting.
func (s *Service) waits(p access.Principal) bool {
	m, active := s.registry.Active(p)
	return !active && m.AwaitsConsent
}

// withConsent is an agent as the actor leaves it, made or given another owner: the
// owner's own act is their consent, and anybody else's is not. On the gateway's host
// it is the owner's only where nobody else holds a device of it. All else leaves
// consent as it was.
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

// settleConsent is the fence behind every change, whoever asked for it.
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
