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
