package upstream

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// lingerTime is the default of Config.LingerTime.
const lingerTime = 100 * time.Millisecond

// lingering delays the cancellation of an answered request, so that its response can reach its
// end. The library cancels the request's context when it has received the expected message.
// Without the delay, the connection would close just before the end of the stream, and each
// call would need a new connection.
type lingering struct {
	next http.RoundTripper
	time time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l lingering) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	var answered atomic.Bool
	unhook := context.AfterFunc(r.Context(), func() {
		if answered.Load() {
			time.AfterFunc(l.time, func() { cancel(context.Cause(r.Context())) })
			return
		}
		cancel(context.Cause(r.Context()))
	})
	response, err := l.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		unhook()
		cancel(nil)
		return nil, err
	}
	answered.Store(true)
	response.Body = &lingeringBody{response.Body, func() { unhook(); cancel(nil) }}
	return response, nil
}

// lingeringBody ends its request when it is closed.
type lingeringBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *lingeringBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
