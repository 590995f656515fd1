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

// lingering lets an answer come to its end. The library's caller is done when it has the
// message that it waits for, and ends the request's context then, which would tear down
// the connection just before the end of the stream: each call would need a new one.
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
