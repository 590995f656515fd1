package passkeys

import (
	"context"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
)

// ChangeOf returns a member's statement about a passkey.
func (k *Keeper) ChangeOf(by access.Principal, what string, id, nonce []byte) passkey.Change {
	return passkey.Change{Gateway: k.cfg.Gateway, By: by.String(), What: what, Credential: passkey.Text(id), Nonce: nonce}
}

// Challenge returns the options of an assertion for a member. They contain a nonce for one
// proof, and the challenge of the statement that includes the nonce.
func (k *Keeper) Challenge(member access.Principal, purpose string, said func(nonce []byte) passkey.Statement) (passkey.Ceremony, error) {
	party, err := k.here()
	if err != nil {
		return passkey.Ceremony{}, err
	}
	have := k.counting(member)
	if len(have) == 0 {
		return passkey.Ceremony{}, k.none(member)
	}
	number, err := k.book.Challenge(member.String(), purpose)
	if err != nil {
		return passkey.Ceremony{}, err
	}
	c := passkey.Ceremony{Nonce: number.Nonce[:], Until: number.Until}
	challenge, err := passkey.Challenge(said(c.Nonce))
	if err != nil {
		return passkey.Ceremony{}, err
	}
	c.Options, err = request(party, have, challenge)
	return c, err
}

// none returns the error for a member without a passkey that counts.
func (k *Keeper) none(member access.Principal) error {
	for _, p := range k.Passkeys(member) {
		if p.Waits {
			return reason.Errorf(reason.PresenceNotProven, "passkey %s (%s) of %s waits to be confirmed", short(p.ID), p.Name, member).
				WithRemedy("Have another admin confirm it in the console, or run `palyrad presence passkey confirm %s` on the gateway's host.", passkey.Text(p.ID))
		}
	}
	return reason.Errorf(reason.PresenceNotProven, "%s has no confirmed passkey on this console", member).
		WithRemedy("Enrol one in the console, under Passkeys.")
}

// Prove checks that a member's passkey signed a statement with the nonce issued for it, and
// stores the counter. A statement is accepted once.
func (k *Keeper) Prove(ctx context.Context, member access.Principal, purpose string, a passkey.Assertion, said passkey.Statement) (passkey.Passkey, error) {
	party, err := k.here()
	if err != nil {
		return passkey.Passkey{}, err
	}
	if err := k.book.Redeem(member.String(), purpose, a.Nonce); err != nil {
		return passkey.Passkey{}, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	p, known := k.Passkey(a.CredentialID)
	switch {
	case !known || p.Member != member || p.Removed():
		return p, reason.Errorf(reason.PresenceNotProven, "%s has no passkey %s", member, short(a.CredentialID)).WithRemedy("Use one that the console lists under Passkeys.")
	case !p.Counts():
		return p, k.none(member)
	}
	count, err := a.Verify(p.PublicKey, party, said)
	if err != nil {
		return p, err
	}
	if passkey.WentBack(p.SignCount, count) {
		return p, k.alarm(ctx, p, count)
	}
	p.SignCount, p.LastUsedAt = count, k.now()
	return p, k.keep(ctx, p)
}

// alarm refuses a counter that decreased, and journals it.
func (k *Keeper) alarm(ctx context.Context, p passkey.Passkey, count uint32) error {
	back, err := event.DraftOf(event.PasskeyCounterBack, p.Member.String(), passkey.Text(p.ID), passkey.CounterPayload{
		Credential: passkey.Text(p.ID), Member: p.Member, SignCount: count, Was: p.SignCount,
	})
	if err != nil {
		return err
	}
	was := p.SignCount
	p.CounterBackAt = k.now()
	if err := k.keep(ctx, p, back); err != nil {
		return err
	}
	return reason.Errorf(reason.PresenceNotProven, "the passkey showed the counter %d after %d: there may be a copy of it", count, was).
		WithRemedy("Remove it, and enrol another authenticator.")
}
