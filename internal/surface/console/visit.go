package console

import (
	"context"
	"time"

	"palyra/internal/core/access"
)

type visitKey struct{}

// Visit is an API request to the console's origin.
type Visit struct {
	// Session is the id of the session, "" for none.
	Session string
	// Look returns the caller. It is called again during the request, and fails once the session
	// has ended.
	Look func() (access.Caller, time.Time, error)
}

// VisitOf returns the visit of a request; ok is false for requests to other listeners.
func VisitOf(ctx context.Context) (v Visit, ok bool) {
	v, ok = ctx.Value(visitKey{}).(Visit)
	return v, ok
}

// WithVisit returns the context of a visit's request.
func WithVisit(ctx context.Context, v Visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}
