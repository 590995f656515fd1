package passkeys

import (
	"context"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
)

// enrolling is the purpose of a nonce for a new passkey.
const enrolling = "passkey"

// Begin starts the enrolment of a passkey of a member.
func (k *Keeper) Begin(member access.Principal) (passkey.Ceremony, error) {
	party, err := k.here()
	if err != nil {
		return passkey.Ceremony{}, err
	}
	if member.Kind != access.KindUser {
		return passkey.Ceremony{}, reason.Errorf(reason.PermissionDenied, "%s is not a person and cannot have a passkey", member)
	}
	have := k.Passkeys(member)
	if len(have) >= most {
		return passkey.Ceremony{}, reason.Errorf(reason.InvalidInput, "%s has %d passkeys, which is the limit", member, most).WithRemedy("Remove one first.")
	}
	number, err := k.book.Challenge(member.String(), enrolling)
	if err != nil {
		return passkey.Ceremony{}, err
	}
	c := passkey.Ceremony{Nonce: number.Nonce[:], Until: number.Until}
	c.Options, err = creation(party, handle(k.cfg.Gateway, member), member, have, c.Nonce, k.cfg.Makes.attestation())
	return c, err
}

// Finish enrols the passkey that a browser created (RegistrationResponseJSON). It counts
// immediately if it is the member's first and no agent was ever connected. Otherwise it waits
// for a confirmation, because a thief of a session could also enrol a passkey.
func (k *Keeper) Finish(ctx context.Context, member access.Principal, name string, nonce []byte, credential string) (passkey.Passkey, error) {
	party, err := k.here()
	if err != nil {
		return passkey.Passkey{}, err
	}
	if err := k.book.Redeem(member.String(), enrolling, nonce); err != nil {
		return passkey.Passkey{}, err
	}
	p, err := k.cfg.Makes.registered(party, nonce, credential)
	if err != nil {
		return passkey.Passkey{}, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	if _, known := k.Passkey(p.ID); known {
		return passkey.Passkey{}, reason.Errorf(reason.AlreadyExists, "this passkey was enrolled already")
	}
	p.Member, p.Name, p.EnrolledAt = member, name, k.now()
	if p.Waits, err = k.waits(ctx, member); err != nil {
		return passkey.Passkey{}, err
	}
	enrolled, err := event.DraftOf(event.PasskeyEnrolled, member.String(), passkey.Text(p.ID), passkey.EnrolledPayload{
		Credential: passkey.Text(p.ID), Member: member, Name: name, PublicKey: p.PublicKey, RPID: p.RPID, Origin: party.Origin, Gateway: k.cfg.Gateway,
		AAGUID: p.AAGUID, Attestation: p.Attestation, BackedUp: p.BackedUp, SignCount: p.SignCount, Waits: p.Waits,
	})
	if err != nil {
		return passkey.Passkey{}, err
	}
	if err := k.keep(ctx, p, enrolled); err != nil {
		return passkey.Passkey{}, err
	}
	p, _ = k.Passkey(p.ID)
	return p, nil
}

// begun reports whether a member has, or had, a passkey that counted.
func (k *Keeper) begun(member access.Principal) bool {
	return len(k.those(func(p passkey.Passkey) bool { return p.Member == member && !p.Waits })) > 0
}

func (k *Keeper) waits(ctx context.Context, member access.Principal) (bool, error) {
	if k.begun(member) {
		return true, nil
	}
	return k.cfg.AgentConnected(ctx)
}

// Confirm makes a waiting passkey count. A member's first passkey requires a confirmation on
// the gateway's host. A later passkey requires the host, another passkey of the member, or
// another admin.
func (k *Keeper) Confirm(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error) {
	return k.change(ctx, w, id, passkey.Confirm)
}

// Remove removes a passkey permanently.
func (k *Keeper) Remove(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error) {
	return k.change(ctx, w, id, passkey.Remove)
}

func (k *Keeper) change(ctx context.Context, w passkey.Word, id []byte, what string) (passkey.Passkey, error) {
	p, known := k.Passkey(id)
	if !known || p.Removed() {
		return p, noSuch(id)
	}
	if what == passkey.Confirm && !p.Waits {
		return p, reason.Errorf(reason.AlreadyExists, "passkey %s was confirmed already", short(id))
	}
	if err := k.vouches(ctx, w, p, what); err != nil {
		return p, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	// The counter in the proof may belong to this same passkey.
	if p, _ = k.Passkey(id); p.Removed() || what == passkey.Confirm && !p.Waits {
		return p, noSuch(id)
	}
	code := event.PasskeyConfirmed
	if p.Waits = p.Waits && what != passkey.Confirm; what == passkey.Remove {
		code, p.RemovedAt = event.PasskeyRemoved, k.now()
	}
	changed, err := event.DraftOf(code, w.By.String(), passkey.Text(id), passkey.ChangedPayload{
		Credential: passkey.Text(id), Member: p.Member, By: w.By, Host: w.Host, Proof: w.Proof,
	})
	if err != nil {
		return p, err
	}
	if err := k.keep(ctx, p, changed); err != nil {
		return p, err
	}
	p, _ = k.Passkey(id)
	return p, nil
}

// vouches checks that an authorization is sufficient for a change. A member with a passkey that
// counts must use one, which a thief of a session cannot do.
func (k *Keeper) vouches(ctx context.Context, w passkey.Word, p passkey.Passkey, what string) error {
	if w.Host {
		return nil
	}
	own, has := w.By == p.Member, len(k.counting(w.By)) > 0
	switch {
	case what == passkey.Confirm && !k.begun(p.Member):
		return reason.Errorf(reason.PermissionDenied, "%s has no confirmed passkey, and agents are connected: the first one must be confirmed on the gateway's host", p.Member).
			WithRemedy("Run `palyrad presence passkey confirm %s` there, as the user that palyrad runs as.", passkey.Text(p.ID))
	case own && !has && what == passkey.Remove && p.Waits:
		return nil // it proves nothing
	case own && !has:
		return reason.Errorf(reason.PresenceNotProven, "this requires a confirmed passkey of %s, another admin, or the gateway's host", p.Member).
			WithRemedy("Run `palyrad presence passkey %s %s` there, as the user that palyrad runs as.", what, passkey.Text(p.ID))
	case !own:
		if err := mayChange(k.cfg.Members, w.By, p.Member); err != nil {
			return err
		}
		if what == passkey.Confirm && !k.cfg.Independent(w.By, p.Member) {
			return reason.Errorf(reason.PermissionDenied, "%s and %s are not independent: one created or changed the other, or another member controls both", w.By, p.Member).
				WithRemedy("Have another admin confirm it, or run `palyrad presence passkey confirm %s` on the gateway's host.", passkey.Text(p.ID))
		}
		if !has {
			return nil
		}
	}
	if w.Proof == nil {
		return reason.Errorf(reason.PresenceNotProven, "this requires a proof by a passkey of %s", w.By).WithRemedy("Confirm with the passkey when the browser asks.")
	}
	_, err := k.Prove(ctx, w.By, passkey.ChangePurpose(what, p.ID), *w.Proof, k.ChangeOf(w.By, what, p.ID, w.Proof.Nonce))
	return err
}

// mayChange applies the rules for devices: owners may change any passkey, and admins may change
// any passkey except those belonging to owners.
func mayChange(members Members, actor, of access.Principal) error {
	m, ok := members.Active(actor)
	if ok && m.Holds(access.RoleOwner) {
		return nil
	}
	if !ok || !m.Holds(access.RoleAdmin) {
		return reason.Errorf(reason.PermissionDenied, "%s may not change the passkeys of %s", actor, of)
	}
	if owner, known := members.Active(of); known && slices.Contains(owner.Roles, access.RoleOwner) {
		return reason.Errorf(reason.PermissionDenied, "only an owner changes the passkeys of an owner")
	}
	return nil
}
