package console

import (
	"context"
	"time"

	"palyra/internal/core/access"
)

type visitKey struct{}

// Visit is a request that came to the console's origin for the API.
type Visit struct {
	// Session is the id of the session, "" where there is none.
	Session string
	// Look finds the caller. It is asked again while the request lasts, and refuses once
	// the session ended.
	Look func() (access.Caller, time.Time, error)
}

// VisitOf returns the visit that a request is; ok is false for one that came by another
// listener.
func VisitOf(ctx context.Context) (v Visit, ok bool) {
	v, ok = ctx.Value(visitKey{}).(Visit)
	return v, ok
}

// WithVisit is ctx for a request of a visit.
func WithVisit(ctx context.Context, v Visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}
