package tool

import (
	"context"
	"time"
)

// Isolate returns a context with the deadline and the cancellation of ctx, and its cause, but
// without its values. A request of the MCP library carries its protocol version and its id as
// values: with them, a session with an upstream server would speak the revision of the caller.
//
// The values by which the gateway traces a request still pass: their keys have the method
// ReachesExecutors. The caller must call end.
func Isolate(ctx context.Context) (isolated context.Context, end func()) {
	inner, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	if ctx.Err() != nil {
		cancel(context.Cause(ctx)) // AfterFunc does so on a goroutine of its own
	}
	return isolatedContext{inner, ctx}, func() {
		stop()
		cancel(nil)
	}
}

// isolatedContext has the cancellation of its own context and the deadline of the request.
type isolatedContext struct {
	context.Context
	request context.Context
}

// Deadline returns the deadline of the request, at which the context of the request ends both.
func (c isolatedContext) Deadline() (time.Time, bool) { return c.request.Deadline() }

// Value returns the values of the request that may reach executors.
func (c isolatedContext) Value(key any) any {
	if _, may := key.(interface{ ReachesExecutors() }); may {
		return c.request.Value(key)
	}
	return c.Context.Value(key)
}
