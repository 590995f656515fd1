package quota

import "context"

// Store keeps what is counted for the next start.
type Store interface {
	// Usage returns what was kept of the hours from one on, by who and hour.
	Usage(ctx context.Context, from int64) ([]Usage, error)
	// PutUsage keeps hours in place of the same ones, and forgets those before
	// one.
	PutUsage(ctx context.Context, list []Usage, from int64) error
}
