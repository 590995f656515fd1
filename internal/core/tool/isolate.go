package tool

import (
	"context"
	"time"
)

// Isolate returns a context with the deadline, the cancellation and the cause of ctx, but
// without its values. The MCP library stores the protocol version and the id of a request as
// values. With them, a session with an upstream server would use the caller's protocol version.
//
// Values with which the gateway traces a request still pass: their keys have the method
// ReachesExecutors. The caller MUST call end.
func Isolate(ctx context.Context) (isolated context.Context, end func()) {
	inner, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	if ctx.Err() != nil {
		cancel(context.Cause(ctx)) // AfterFunc would do so in a separate goroutine
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

// Deadline returns the deadline of the request. The end of the request's context ends both
// contexts.
func (c isolatedContext) Deadline() (time.Time, bool) { return c.request.Deadline() }

// Value returns the values of the request that may reach executors.
func (c isolatedContext) Value(key any) any {
	if _, may := key.(interface{ ReachesExecutors() }); may {
		return c.request.Value(key)
	}
	return c.Context.Value(key)
}
