package identity

import (
	"context"

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

// Consents records which agents may act for their owner, and checks that a caller acts for
// itself.
type Consents struct {
	dir  *Directory
	work *OpenWork
}

// ConsentToAgent gives or withdraws the owner's consent for an agent to act in its name. Only
// the owner may call it, with its own device: no token, agent, admin or operator on the
// gateway's host may do so. Repeating a call changes nothing. The host needs no such operation,
// because an owner without a device gets one there (`palyrad operator bundle`).
func (s *Consents) ConsentToAgent(ctx context.Context, by access.Caller, c Consent) (access.Member, error) {
	return locked(s.dir, "consenting to an agent", func() (access.Member, error) { return s.consent(ctx, by, c) })
}

func (s *Consents) consent(ctx context.Context, by access.Caller, c Consent) (access.Member, error) {
	m, known, err := memberNamed(s.dir.registry, c.Agent)
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
	if err := s.dir.apply(ctx, by.Principal, Change{Members: []access.Member{m}, consent: true}, d); err != nil {
		return m, err
	}
	err = s.dir.publish(ctx, by.Principal)
	if c.Withdraw {
		s.work.Cut(m.Principal, m.Waiting())
	}
	return m, err
}

// ownDevice refuses a caller that does not have the certificate of a live device.
func (s *Consents) ownDevice(by access.Caller) error {
	dev, err := s.dir.live(by.DeviceID)
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
func (s *Consents) OwnWord(by access.Caller) error {
	if err := s.ownDevice(by); err != nil {
		return err
	}
	held := s.dir.History().Controllers()[by.Principal]
	if len(held) == 0 {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s made or changed %s, or gave it a device, and could consent in its name", named(held), by.Principal).
		WithRemedy("Have a member whom neither created confirm it first: `palyra members confirm %s`, or on the gateway's host `palyrad members confirm %[1]s`. Then consent again.", by.Principal.Name)
}
