package passkey

import (
	"fmt"

	"palyra/internal/core/access"
)

// Log follows the passkeys of a gateway through its journal. It checks each proof only with the
// preceding journal entries.
type Log struct {
	// Gateway is the expected name of the gateway in statements; "" accepts the name in the
	// journal.
	Gateway string
	// Whole means that the journal is read from its first event, so that a passkey without an
	// enrolment is invalid.
	Whole bool
	// Verified counts the proven votes. Unknown counts the votes of passkeys that were enrolled
	// before the first entry read.
	Verified, Unknown int
	keys              map[string]*logged
}

// logged is the state of a passkey after the events so far.
type logged struct {
	EnrolledPayload
	removed bool
}

// Enrolled processes an enrolment.
func (l *Log) Enrolled(p EnrolledPayload) error {
	if l.Gateway != "" && p.Gateway != l.Gateway {
		return fmt.Errorf("the passkey was enrolled at another gateway, %s", p.Gateway)
	}
	if l.keys == nil {
		l.keys = map[string]*logged{}
	}
	if l.keys[p.Credential] != nil {
		return fmt.Errorf("the passkey %s was enrolled before", p.Credential)
	}
	l.keys[p.Credential] = &logged{EnrolledPayload: p}
	return nil
}

// Confirmed processes a confirmation, and checks its proof if it has one.
func (l *Log) Confirmed(p ChangedPayload) error { return l.changed(p, Confirm) }

// Removed processes a removal, and checks its proof if it has one.
func (l *Log) Removed(p ChangedPayload) error { return l.changed(p, Remove) }

func (l *Log) changed(p ChangedPayload, what string) error {
	k, err := l.known(p.Credential)
	if err != nil {
		return err
	}
	if p.Proof != nil {
		if _, err := l.check(p.By, *p.Proof, func(gateway string) Statement {
			return Change{Gateway: gateway, By: p.By.String(), What: what, Credential: p.Credential, Nonce: p.Proof.Nonce}
		}); err != nil {
			return err
		}
	}
	if k != nil {
		k.Waits, k.removed = k.Waits && what != Confirm, k.removed || what == Remove
	}
	return nil
}

// Voted checks the proof of a vote by a member; said returns the vote for a name of the
// gateway.
func (l *Log) Voted(member access.Principal, proof Assertion, said func(gateway string) Statement) error {
	checked, err := l.check(member, proof, said)
	switch {
	case err != nil:
		return err
	case checked:
		l.Verified++
	default:
		l.Unknown++
	}
	return nil
}

// known returns a passkey, or nil for a passkey that was enrolled before the first entry read.
func (l *Log) known(credential string) (*logged, error) {
	k := l.keys[credential]
	if k == nil && l.Whole {
		return nil, fmt.Errorf("no event before it enrols the passkey %s", credential)
	}
	return k, nil
}

// check checks a proof. It returns false if the passkey is unknown.
func (l *Log) check(by access.Principal, proof Assertion, said func(gateway string) Statement) (bool, error) {
	k, err := l.known(Text(proof.CredentialID))
	if err != nil || k == nil {
		return false, err
	}
	switch {
	case k.Member != by:
		return false, fmt.Errorf("the passkey %s belongs to %s, not to %s", k.Credential, k.Member, by)
	case k.Waits || k.removed:
		return false, fmt.Errorf("the passkey %s was not valid at that time", k.Credential)
	}
	count, err := proof.Verify(k.PublicKey, Party{ID: k.RPID}, said(k.Gateway))
	if err != nil {
		return false, err
	}
	if WentBack(k.SignCount, count) {
		return false, fmt.Errorf("the passkey %s showed the counter %d after %d", k.Credential, count, k.SignCount)
	}
	k.SignCount = count
	return true, nil
}
