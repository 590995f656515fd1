// Package passkeys enrols the passkeys of members and checks what they sign: which count,
// who makes one count, and that none is used that may have a copy. The proofs themselves
// are package passkey's, registrations those of WebAuthn Level 3.
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

// told is how long people are told of a passkey that came, counts or went.
const told = 7 * 24 * time.Hour

// most is how many passkeys a member may have.
const most = 16

// Store keeps passkeys.
type Store interface {
	// Passkeys returns all of them, removed ones included.
	Passkeys(ctx context.Context) ([]passkey.Passkey, error)
	// KeepPasskey makes a passkey durable with its events as a whole or not at all: a new
	// one where its Version is 1, else in place of the one with the version before. It
	// fails with reason.AlreadyExists when a new one exists.
	KeepPasskey(ctx context.Context, p passkey.Passkey, events ...event.Draft) error
}

// Members are those that the gateway knows (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Config is what a Keeper is made of. All members but Makes and Now are required.
type Config struct {
	Store   Store
	Members Members
	// Gateway is what statements name the gateway by.
	Gateway string
	Makes   Makes
	// Independent reports whether nobody has two members in hand.
	Independent func(a, b access.Principal) bool
	// AgentConnected reports whether an agent was ever connected to the gateway.
	AgentConnected func(ctx context.Context) (bool, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Keeper has the passkeys of a gateway. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	book *presence.Book

	// changing makes one change at a time; mu guards what follows.
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

// At says at which canonical origin the console is; "" for no console.
func (k *Keeper) At(origin string) error {
	party, good := passkey.PartyOf(origin)
	if !good && origin != "" {
		return reason.Errorf(reason.ConfigInvalid, "%q is no origin of a console", origin)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.party = party
	return nil
}

// at is the console's relying party; the zero one for no console.
func (k *Keeper) at() passkey.Party {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.party
}

// Passkeys returns those of a member that were not removed, and of all members for the
// zero principal, the oldest first.
func (k *Keeper) Passkeys(of access.Principal) []passkey.Passkey {
	return k.those(func(p passkey.Passkey) bool { return !p.Removed() && (of.IsZero() || p.Member == of) })
}

// Passkey returns one, also a removed one.
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

// counting are those of a member that prove something at this console.
func (k *Keeper) counting(of access.Principal) []passkey.Passkey {
	here := k.at().ID
	return k.those(func(p passkey.Passkey) bool { return p.Member == of && p.Counts() && p.RPID == here })
}

// Proving are the members that have a passkey which counts here.
func (k *Keeper) Proving() (list []access.Principal) {
	here := k.at().ID
	for _, p := range k.Passkeys(access.Principal{}) {
		if p.Counts() && p.RPID == here && !slices.Contains(list, p.Member) {
			list = append(list, p.Member)
		}
	}
	return list
}

// Lost are the passkeys that count and were made for another origin than the console's of
// today, where no browser offers them.
func (k *Keeper) Lost() []passkey.Passkey {
	here := k.at().ID
	return k.those(func(p passkey.Passkey) bool { return p.LostAt(here) })
}

// Notices tell a principal for seven days of passkeys that came, went or seem to have a
// copy, and of those that wait, or are lost, as long as they are: of its own, and an owner
// of all.
func (k *Keeper) Notices(to access.Principal) (list []string) {
	m, known := k.cfg.Members.Active(to)
	since, here := k.cfg.Now().Add(-told), k.at().ID
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
			list = append(list, fmt.Sprintf("%s waits to be confirmed: with another passkey of theirs or by another admin in the console, or by `palyrad presence passkey confirm %s` on the gateway's host; if nobody meant it, remove it", of, passkey.Text(p.ID)))
		case p.EnrolledAt.After(since):
			list = append(list, fmt.Sprintf("%s was enrolled at %s; if that was none of yours, remove it in the console", of, p.EnrolledAt.Format(time.RFC3339)))
		}
	}
	return list
}

// short is enough of an id for people to tell passkeys apart.
func short(id []byte) string {
	text := passkey.Text(id)
	return text[:min(len(text), 10)]
}

// change makes one passkey another with its events, and returns it as it is then.
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
	// Once begun it ends: a caller that hangs up must not leave memory behind the store.
	if err := k.cfg.Store.KeepPasskey(context.WithoutCancel(ctx), p, drafts...); err != nil {
		return err
	}
	k.mu.Lock()
	k.list[string(p.ID)] = p
	k.mu.Unlock()
	return nil
}

// now is the time as stores keep it: UTC with microseconds.
func (k *Keeper) now() time.Time { return k.cfg.Now().UTC().Truncate(time.Microsecond) }

// here is the console's relying party.
func (k *Keeper) here() (passkey.Party, error) {
	party := k.at()
	if party.ID == "" {
		return party, reason.Errorf(reason.PresenceNotProven, "this gateway has no console, and passkeys work on its pages alone").
			WithRemedy("Set listen.console, or make a presence key: `palyra key presence --passphrase`.")
	}
	return party, nil
}

// errNoSuch is for a passkey that is not there, or is another's.
var errNoSuch = errors.New("there is no such passkey")

func noSuch(id []byte) error {
	return reason.Errorf(reason.NotFound, "%w: %s", errNoSuch, passkey.Text(id)).WithRemedy("The console lists them under Passkeys.")
}
