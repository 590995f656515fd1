package journal

import (
	"context"
	"time"

	"palyra/internal/core/event"
)

// Daemon is the actor of events that the gateway itself causes.
const Daemon = "service:palyrad"

// TimeFormat is the time format: RFC 3339, UTC, always six decimals.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// Filter selects events. The zero value selects all events, oldest first.
type Filter struct {
	// Code is a complete code, or a prefix such as "PAL-A".
	Code    string
	Session string
	Run     string
	Subject string
	Actor   string
	// Since and Until bound the time: Since is inclusive, Until is exclusive. A zero time means no
	// bound.
	Since time.Time
	Until time.Time
	// After and UpTo bound the sequence numbers: After is exclusive, UpTo is inclusive. 0 means no
	// bound.
	After int64
	UpTo  int64
	// Limit is the maximum number of events; 0 means DefaultLimit.
	Limit int
	// Newest selects the order newest first.
	Newest bool
}

// DefaultLimit is the page size if Filter.Limit is 0.
const DefaultLimit = 1000

// Source is the read interface of a journal.
type Source interface {
	// Head returns the newest durable head.
	Head() Head
	// Events returns a page of the events that match the filter.
	Events(ctx context.Context, f Filter) ([]Event, error)
	// Scan calls fn with the events after..upTo, oldest first, within one snapshot. The event and
	// its payload are valid only during the call.
	Scan(ctx context.Context, after, upTo int64, fn func(*Event) error) error
	// Tree calls fn with the Merkle tree over the first size events, within one snapshot.
	Tree(ctx context.Context, size int64, fn func(*Tree) error) error
}

// Store is the storage of a journal. Append returns when the events are durable; an event is never
// visible to Head, Events or Wait before that.
type Store interface {
	Source
	Append(ctx context.Context, drafts ...event.Draft) ([]Event, error)
	// Wait returns when the head is past after.
	Wait(ctx context.Context, after int64) error
	// Recent returns the events after a sequence number from memory, or false if some of them are
	// no longer in memory.
	Recent(after int64) ([]Event, bool)
}
