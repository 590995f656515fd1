package rpc

import (
	"context"
	"net/http"
	"sync/atomic"

	"palyra/gen/palyra/v1/palyrav1connect"
)

// bundled are the streams whose messages often come several at once.
var bundled = map[string]bool{
	palyrav1connect.GatewayServiceCallToolProcedure:  true,
	palyrav1connect.GatewayServiceRunStreamProcedure: true,
	palyrav1connect.GatewayServiceWatchRunProcedure:  true,
}

type bundlerKey struct{}

// bundle lets the handlers of such streams send several messages with one write:
// the library would flush each message, and wake the client for it.
func bundle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bundled[r.URL.Path] {
			b := &bundler{ResponseWriter: w}
			w, r = b, r.WithContext(context.WithValue(r.Context(), bundlerKey{}, b))
		}
		next.ServeHTTP(w, r)
	})
}

// bundler is a response that can hold messages back. They are sent with the next
// message that is not held back, and at the latest at the end of the response.
type bundler struct {
	http.ResponseWriter
	holding atomic.Bool
}

// Flush sends what was written, unless more follows at once.
func (b *bundler) Flush() {
	if !b.holding.Load() {
		// A client that is gone fails the next write.
		_ = http.NewResponseController(b.ResponseWriter).Flush()
	}
}

// Unwrap lets an http.ResponseController find the response below.
func (b *bundler) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// hold says whether the messages that are sent next are held back. Like
// sending, it is for one goroutine at a time.
func hold(ctx context.Context, on bool) {
	if b, ok := ctx.Value(bundlerKey{}).(*bundler); ok {
		b.holding.Store(on)
	}
}

// release sends what was held back.
func release(ctx context.Context) {
	if b, ok := ctx.Value(bundlerKey{}).(*bundler); ok && b.holding.Swap(false) {
		b.Flush()
	}
}
