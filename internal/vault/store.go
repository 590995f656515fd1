package vault

import (
	"context"
	"errors"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// ErrChanged is returned by a Store if a secret changed since the caller read it.
var ErrChanged = errors.New("the secret changed meanwhile")

// Store stores secrets. A method with an event is atomic: the row and the event are both durable if
// it returns nil, and neither is otherwise.
type Store interface {
	Boxes
	// Record returns a secret with all its versions. The error has the reason NotFound if the
	// secret does not exist.
	Record(ctx context.Context, ref Ref) (Record, error)
	// Records returns at most limit secrets by scope and key, with only the newest version and
	// without its box.
	Records(ctx context.Context, q Query) ([]Record, error)
	// PutRecord replaces the record with the seal old, nil for none. For a version without a box,
	// the stored box is kept. Versions that r lacks are dropped.
	PutRecord(ctx context.Context, r Record, old []byte, e event.Draft) error
	// UseRecord records a use. The error is ErrChanged unless the secret still has the seal.
	UseRecord(ctx context.Context, ref Ref, seal []byte, e event.Draft) error
	// RemoveRecord deletes a secret with its versions. The error is NotFound as for Record.
	RemoveRecord(ctx context.Context, ref Ref, e event.Draft) error
	// KeepExport records an export of keys, and Exports returns the records.
	KeepExport(ctx context.Context, keks []string, e event.Draft) error
	Exports(ctx context.Context) ([]Exported, error)
	// Journal journals an event that changes no record.
	Journal(ctx context.Context, e event.Draft) error
}

// Query selects the secrets of a list.
type Query struct {
	// Scope is the only scope to list; "" is every scope.
	Scope string
	// After is the last secret of the previous page.
	After Ref
	// Placed selects only secrets that have hosts.
	Placed bool
	Limit  int
}

// NoSuchSecret returns a Store's error for a secret that does not exist.
func NoSuchSecret(ref Ref) error {
	return reason.Errorf(reason.NotFound, "the secret %s does not exist", ref).WithRemedy("See `palyra vault list`.")
}
