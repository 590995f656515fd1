package vault

import (
	"context"
	"errors"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// ErrChanged is what a Store says when a secret is not any more as the caller saw it.
var ErrChanged = errors.New("the secret was changed meanwhile")

// Store keeps secrets. Whatever takes an event is one unit with it: the row and the
// event are durable when it returns nil, and neither is otherwise.
type Store interface {
	Boxes
	// Record returns a secret with all its versions; its error has the reason NotFound
	// when there is none.
	Record(ctx context.Context, ref Ref) (Record, error)
	// Records returns at most limit secrets by scope and key, with the newest version
	// alone and without its box.
	Records(ctx context.Context, q Query) ([]Record, error)
	// PutRecord keeps a record in place of the one with the seal old, nil for none. A
	// version without a box is kept as it is, and versions that r lacks are dropped.
	PutRecord(ctx context.Context, r Record, old []byte, e event.Draft) error
	// UseRecord notes that a secret is used. It is ErrChanged unless the secret still
	// has the seal.
	UseRecord(ctx context.Context, ref Ref, seal []byte, e event.Draft) error
	// RemoveRecord drops a secret with its versions; NotFound when there is none.
	RemoveRecord(ctx context.Context, ref Ref, e event.Draft) error
	// KeepExport notes that keys were exported, and Exports are those.
	KeepExport(ctx context.Context, keks []string, e event.Draft) error
	Exports(ctx context.Context) ([]Exported, error)
	// Journal journals what changes no record.
	Journal(ctx context.Context, e event.Draft) error
}

// Query says which secrets are listed.
type Query struct {
	// Scope is the only one; "" is every scope.
	Scope string
	// After is the last secret that was seen.
	After Ref
	// Placed asks for those that have hosts alone.
	Placed bool
	Limit  int
}

// NoSuchSecret is the error of a Store for a secret that is not there.
func NoSuchSecret(ref Ref) error {
	return reason.Errorf(reason.NotFound, "there is no secret %s", ref).WithRemedy("See `palyra vault list`.")
}
