package limit

import "context"

// Store keeps the sums of hours across restarts.
type Store interface {
	// Usage returns the sums of hour from and of later hours, ordered by Who and Hour.
	Usage(ctx context.Context, from int64) ([]Usage, error)
	// PutUsage replaces the sums of the hours in list, and deletes the sums of hours before from.
	PutUsage(ctx context.Context, list []Usage, from int64) error
}
