package session

import (
	"context"
	"time"

	"palyra/internal/core/access"
)

// Row has the immutable data of a session.
type Row struct {
	// ID is a ULID.
	ID string
	Key
	OnBehalfOf access.Principal
	StartedAt  time.Time
}

// Past is a stored session.
type Past struct {
	Row
	Did
	// EndedAt is zero unless a person ended it.
	EndedAt time.Time
	EndedBy access.Principal
	// EndReason is the person's reason.
	EndReason string
}

// Member records that a call belongs to a session, in the transaction of the call's first
// event.
type Member struct {
	Session string
	// New is the session row, to be stored with the call; nil once it is stored.
	New *Row
	// Proposal is the call's id. OfRun is true for a call of a gateway run.
	Proposal string
	OfRun    bool
}

// Store has the sessions and runs from before the start of this process.
type Store interface {
	// NewestSession returns the newest session of a key, ended or not, with the state after its
	// calls; false if none exists.
	NewestSession(ctx context.Context, k Key) (Past, bool, error)
	// RunCalls counts the calls that a run of the gateway made.
	RunCalls(ctx context.Context, p access.Principal, run string) (int, error)
}

// openSessions holds the sessions and runs that have open or recent calls. Each method is
// atomic. inMemory is the implementation for one process; several replicas need one that they
// share.
type openSessions interface {
	// known reports whether the session of a call is held, and its run, if it has one.
	known(key Key, run string) (session, counted bool)
	// remember adds a session from the store, unless it has ended or is held.
	remember(key Key, past Past, found bool)
	rememberRun(key runKey, made int)
	// enter adds a call to its session, a new one if that is idle. It returns nil if the session
	// or the run is not held any more, and reason.RateLimited for too many calls under way.
	enter(caller access.Caller, key Key, run string) (*Call, error)
	// leave removes a call from the counts of calls under way.
	leave(c *Call)
	// underWayOfAll counts the calls of all principals that have not ended.
	underWayOfAll() int
	// end removes a session that a person ended.
	end(key Key, id string)
	// did returns the state of a session, false if it is not held.
	did(key Key, id string) (Did, bool)
}

// NewBook returns a book over a store. A session ends if none of its calls began or ended for
// the time idle.
func NewBook(store Store, idle time.Duration) *Book {
	return &Book{store: store, idle: idle, open: &inMemory{
		idle: idle, now: time.Now,
		sessions: make(map[Key]*session), runs: make(map[runKey]*runCalls), underWay: make(map[access.Principal]int),
	}}
}

// Filter selects sessions; empty fields select all.
type Filter struct {
	Principal access.Principal
	// Of selects the sessions of a principal and those on its behalf.
	Of access.Principal
	// Open excludes sessions that a person ended.
	Open bool
	// PageSize 0 means 50; at most 500.
	PageSize  int
	PageToken string
}

// Ending is the end of a session by a person.
type Ending struct {
	ID     string
	Key    Key
	By     access.Principal
	Reason string
}
