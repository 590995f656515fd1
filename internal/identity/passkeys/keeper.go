// Package passkeys enrols the passkeys of members and checks their signatures. It determines
// which passkeys count and which members can make one count, and refuses a passkey that may
// have been copied. Package passkey defines the proofs; registrations follow WebAuthn Level 3.
package passkeys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/presence"
)

// noticePeriod is how long people are notified of an added, confirmed or removed passkey.
const noticePeriod = 7 * 24 * time.Hour

// most limits the passkeys of a member.
const most = 16

// Store stores passkeys.
type Store interface {
	// Passkeys returns all passkeys, including removed ones.
	Passkeys(ctx context.Context) ([]passkey.Passkey, error)
	// KeepPasskey makes a passkey and its events durable completely, or not at all. A passkey with
	// Version 1 is new; any other replaces the one with the previous version. It returns
	// reason.AlreadyExists if a new passkey already exists.
	KeepPasskey(ctx context.Context, p passkey.Passkey, events ...event.Draft) error
}

// Members provides the gateway's members (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Config holds the dependencies of a Keeper. All fields except Makes and Now are required.
type Config struct {
	Store   Store
	Members Members
	// Gateway is the gateway's name in statements.
	Gateway string
	Makes   Makes
	// Independent reports whether neither member controls the other, and no third member controls
	// both.
	Independent func(a, b access.Principal) bool
	// AgentConnected reports whether an agent was ever connected to the gateway.
	AgentConnected func(ctx context.Context) (bool, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Keeper manages the passkeys of a gateway. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	book *presence.Book

	// changing serialises changes; mu guards the fields below.
	changing sync.Mutex
	mu       sync.RWMutex
	list     map[string]passkey.Passkey
	party    passkey.Party
}

// New loads the passkeys.
func New(ctx context.Context, c Config) (*Keeper, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	k := &Keeper{cfg: c, book: presence.NewBook(c.Now), list: map[string]passkey.Passkey{}}
	stored, err := c.Store.Passkeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading passkeys: %w", err)
	}
	for _, p := range stored {
		k.list[string(p.ID)] = p
	}
	return k, nil
}

// At sets the canonical origin of the console; "" means no console.
func (k *Keeper) At(origin string) error {
	party, good := passkey.PartyOf(origin)
	if !good && origin != "" {
		return reason.Errorf(reason.ConfigInvalid, "%q is not a valid console origin", origin)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.party = party
	return nil
}

// at returns the console's relying party, or the zero value without a console.
func (k *Keeper) at() passkey.Party {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.party
}

// Passkeys returns the passkeys of a member that were not removed, oldest first. The zero
// principal selects all members.
func (k *Keeper) Passkeys(of access.Principal) []passkey.Passkey {
	return k.those(func(p passkey.Passkey) bool { return !p.Removed() && (of.IsZero() || p.Member == of) })
}

// Passkey returns a passkey, including a removed one.
func (k *Keeper) Passkey(id []byte) (passkey.Passkey, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	p, known := k.list[string(id)]
	return p, known
}

func (k *Keeper) those(want func(passkey.Passkey) bool) (list []passkey.Passkey) {
	k.mu.RLock()
	for _, p := range k.list {
		if want(p) {
			list = append(list, p)
		}
	}
	k.mu.RUnlock()
	slices.SortFunc(list, func(a, b passkey.Passkey) int {
		if c := a.EnrolledAt.Compare(b.EnrolledAt); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return list
}

// counting returns the passkeys of a member that count for this console.
func (k *Keeper) counting(of access.Principal) []passkey.Passkey {
	here := k.at().ID
	return k.those(func(p passkey.Passkey) bool { return p.Member == of && p.Counts() && p.RPID == here })
}

// Proving returns the members with a passkey that counts for this console.
func (k *Keeper) Proving() (list []access.Principal) {
	here := k.at().ID
	for _, p := range k.Passkeys(access.Principal{}) {
		if p.Counts() && p.RPID == here && !slices.Contains(list, p.Member) {
			list = append(list, p.Member)
		}
	}
	return list
}

// Lost returns the passkeys that count but were created for another origin than the console's
// current one. Browsers do not offer them there.
func (k *Keeper) Lost() []passkey.Passkey {
	here := k.at().ID
	return k.those(func(p passkey.Passkey) bool { return p.LostAt(here) })
}

// Notices returns the notices for a principal. Notices about added, removed or possibly copied
// passkeys last for seven days; notices about waiting or lost passkeys last as long as they
// apply. A principal receives notices about its own passkeys, and an owner about all.
func (k *Keeper) Notices(to access.Principal) (list []string) {
	m, known := k.cfg.Members.Active(to)
	since, here := k.cfg.Now().Add(-noticePeriod), k.at().ID
	for _, p := range k.those(func(p passkey.Passkey) bool { return known && (p.Member == to || m.Holds(access.RoleOwner)) }) {
		of := fmt.Sprintf("passkey %s (%s) of %s", short(p.ID), p.Name, p.Member)
		if p.CounterBackAt.After(since) {
			list = append(list, fmt.Sprintf("%s showed a counter that went back at %s: there may be a copy of it; it was refused. Remove it in the console", of, p.CounterBackAt.Format(time.RFC3339)))
		}
		if p.LostAt(here) {
			list = append(list, fmt.Sprintf("%s is lost: it is one of the console at %s, and the console is now at %s. Set console.origin back, or enroll another and remove it", of, p.RPID, here))
		}
		switch {
		case p.Removed() && p.RemovedAt.After(since):
			list = append(list, fmt.Sprintf("%s was removed at %s", of, p.RemovedAt.Format(time.RFC3339)))
		case p.Removed():
		case p.Waits:
			list = append(list, fmt.Sprintf("%s waits to be confirmed: with another passkey of theirs or by another admin in the console, or by `palyrad presence passkey confirm %s` on the gateway's host; if it is unexpected, remove it", of, passkey.Text(p.ID)))
		case p.EnrolledAt.After(since):
			list = append(list, fmt.Sprintf("%s was enrolled at %s; if that was none of yours, remove it in the console", of, p.EnrolledAt.Format(time.RFC3339)))
		}
	}
	return list
}

// short returns a prefix of an id with which people can distinguish passkeys.
func short(id []byte) string {
	text := passkey.Text(id)
	return text[:min(len(text), 10)]
}

// keep stores a new or changed passkey with its events.
func (k *Keeper) keep(ctx context.Context, p passkey.Passkey, drafts ...event.Draft) error {
	for i, d := range drafts {
		if !d.Code.Attributed() {
			continue
		}
		by, err := d.By(access.DeviceOf(ctx))
		if err != nil {
			return err
		}
		drafts[i] = by
	}
	p.Version++
	// A started change completes even if the caller disconnects: otherwise the memory could differ
	// from the store.
	if err := k.cfg.Store.KeepPasskey(context.WithoutCancel(ctx), p, drafts...); err != nil {
		return err
	}
	k.mu.Lock()
	k.list[string(p.ID)] = p
	k.mu.Unlock()
	return nil
}

// now returns the current time in the precision of stores: UTC with microseconds.
func (k *Keeper) now() time.Time { return k.cfg.Now().UTC().Truncate(time.Microsecond) }

// here returns the console's relying party.
func (k *Keeper) here() (passkey.Party, error) {
	party := k.at()
	if party.ID == "" {
		return party, reason.Errorf(reason.PresenceNotProven, "this gateway has no console, and passkeys work only on its pages").
			WithRemedy("Set listen.console, or create a presence key: `palyra key presence --passphrase`.")
	}
	return party, nil
}

// errNoSuch is returned for a passkey that does not exist or belongs to another member.
var errNoSuch = errors.New("passkey not found")

func noSuch(id []byte) error {
	return reason.Errorf(reason.NotFound, "%w: %s", errNoSuch, passkey.Text(id)).WithRemedy("The console lists them under Passkeys.")
}
