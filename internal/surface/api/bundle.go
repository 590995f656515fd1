package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"palyra/gen/palyra/v1/palyrav1connect"
)

// bundled are the streams whose messages often come in groups.
var bundled = map[string]bool{
	palyrav1connect.GatewayServiceCallToolProcedure:  true,
	palyrav1connect.GatewayServiceRunStreamProcedure: true,
	palyrav1connect.GatewayServiceWatchRunProcedure:  true,
}

type bundlerKey struct{}

// bundle makes the handlers of these streams able to send several messages with one write. The
// library alone would flush each message, and wake the client for it.
func bundle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bundled[r.URL.Path] {
			b := &bundler{ResponseWriter: w}
			defer b.hold(true) // the server reuses the response
			w, r = b, r.WithContext(context.WithValue(r.Context(), bundlerKey{}, b))
		}
		next.ServeHTTP(w, r)
	})
}

// aWhile is how long messages are held back when another one usually follows soon.
const aWhile = 5 * time.Millisecond

// bundler is a response that can hold messages back. They are sent with the next message that is
// not held back, and at the latest at the end of the response.
type bundler struct {
	http.ResponseWriter

	// mu serializes the handler's sends and delayed releases.
	mu      sync.Mutex
	holding bool
	// late releases the held messages, unless brief was reset before.
	late  *time.Timer
	brief bool
}

func (b *bundler) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ResponseWriter.Write(p)
}

// Flush sends the written messages unless they are held back.
func (b *bundler) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}

func (b *bundler) flush() {
	if !b.holding {
		// If the client has disconnected, the next write fails.
		_ = http.NewResponseController(b.ResponseWriter).Flush()
	}
}

// Unwrap returns the underlying response for http.ResponseController.
func (b *bundler) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *bundler) hold(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.brief {
		b.late.Stop()
	}
	b.holding, b.brief = on, false
}

func (b *bundler) holdAWhile() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.brief = true
	if b.late != nil {
		b.late.Reset(aWhile)
		return
	}
	b.late = time.AfterFunc(aWhile, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.brief {
			b.holding, b.brief = false, false
			b.flush()
		}
	})
}

func bundlerOf(ctx context.Context) *bundler {
	b, _ := ctx.Value(bundlerKey{}).(*bundler)
	return b
}

// hold sets whether the next messages are held back. Like sending, it must not be called
// concurrently.
func hold(ctx context.Context, on bool) {
	if b := bundlerOf(ctx); b != nil {
		b.hold(on)
	}
}

// holdAWhile schedules the release of held messages, unless hold is called before. Until hold is
// called, the response must not be used.
func holdAWhile(ctx context.Context) {
	if b := bundlerOf(ctx); b != nil {
		b.holdAWhile()
	}
}

// release sends the held messages.
func release(ctx context.Context) {
	if b := bundlerOf(ctx); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.holding {
			b.holding = false
			b.flush()
		}
	}
}
