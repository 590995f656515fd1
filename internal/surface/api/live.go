package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// liveRequests are the requests in progress, by device, so that revoking a device ends its streams.
type liveRequests struct {
	mu       sync.Mutex
	byDevice map[string]map[int]liveRequest
	next     int
}

type liveRequest struct {
	cancel context.CancelCauseFunc
	// key is the digest of the key that the device presented.
	key string
	// vouched is the member that an external issuer authenticated, zero for a credential of the
	// gateway's own.
	vouched access.Principal
}

// enter registers a request of a device with a key; cancel ends the request. leave must be
// called when the request has ended.
func (l *liveRequests) enter(cancel context.CancelCauseFunc, device, key string, vouched access.Principal) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byDevice == nil {
		l.byDevice = make(map[string]map[int]liveRequest)
	}
	if l.byDevice[device] == nil {
		l.byDevice[device] = make(map[int]liveRequest)
	}
	id := l.next
	l.next++
	l.byDevice[device][id] = liveRequest{cancel, key, vouched}
	return func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.byDevice[device], id); len(l.byDevice[device]) == 0 {
			delete(l.byDevice, device)
		}
	}
}

// end cancels the requests of a device and returns their number.
func (l *liveRequests) end(device string, why error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.byDevice[device] {
		r.cancel(why)
	}
	return len(l.byDevice[device])
}

// endKey cancels the requests that a device made with a key and returns their number.
func (l *liveRequests) endKey(device, key string, why error) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.byDevice[device] {
		if r.key == key {
			r.cancel(why)
			n++
		}
	}
	return n
}

// endVouched cancels the requests of a member that an external issuer authenticated, and returns
// their number.
func (l *liveRequests) endVouched(p access.Principal, why error) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.byDevice {
		for _, r := range of {
			if r.vouched == p {
				r.cancel(why)
				n++
			}
		}
	}
	return n
}

// The bounds of long-lived streams: each costs tens of kilobytes, and every event is sent to all of
// them.
const (
	mostStreamsEach = 256
	mostStreams     = 2048
)

// openStreams are the admitted streams, each with a function that checks its caller's permission
// again.
type openStreams struct {
	mu    sync.Mutex
	looks map[int]func()
	next  int
	// lasting counts the long-lived streams by principal, and total counts all of them.
	lasting map[access.Principal]int
	total   int
}

// last counts a long-lived stream; leave must be called when the stream has ended. At the bound
// of the gateway a principal without a stream still gets one, so that no principal can lock out
// others.
func (o *openStreams) last(of access.Principal) (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.lasting[of]
	if own >= mostStreamsEach || o.total >= mostStreams && own > 0 {
		return nil, reason.Errorf(reason.QuotaExceeded, "opening a stream: %s has %s open, and the gateway has %d in total", of, text.Plural(own, "stream"), o.total).
			WithRemedy("Close console pages or commands that follow events.")
	}
	if o.lasting == nil {
		o.lasting = make(map[access.Principal]int)
	}
	o.lasting[of]++
	o.total++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.total--
		if o.lasting[of]--; o.lasting[of] == 0 {
			delete(o.lasting, of)
		}
	}, nil
}

// enter registers a stream; leave must be called when the stream has ended. A stream is
// registered before its permission is first checked, so that a change in between is not missed.
func (o *openStreams) enter(look func()) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looks == nil {
		o.looks = make(map[int]func())
	}
	id := o.next
	o.next++
	o.looks[id] = look
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.looks, id)
	}
}

// look checks the permissions of all streams again.
func (o *openStreams) look() {
	o.mu.Lock()
	looks := slices.Collect(maps.Values(o.looks))
	o.mu.Unlock()
	for _, look := range looks {
		look()
	}
}

// until cancels a request when its credential expires, so that no stream outlives its
// credential. The cause is the error that why returns. stop must be called when the request has
// ended.
func until(cancel context.CancelCauseFunc, end time.Time, why func() error) (stop func()) {
	if end.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(end), func() { cancel(why()) })
	return func() { timer.Stop() }
}

// socketLook is how often a request over the local operator's socket is checked again. Moving the
// operator's key ends the socket's access, and palyrad receives no notification of it.
const socketLook = 5 * time.Second

// whileGood cancels a request once its credential is refused; stop must be called when the
// request has ended.
func whileGood(ctx context.Context, cancel context.CancelCauseFunc, look func() error) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(socketLook)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := look(); err != nil {
				cancel(err)
			}
		}
	}()
	return func() {
		cancel(nil)
		<-done
	}
}

// cut returns why the gateway itself ended a request, or nil.
func cut(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	switch cause := context.Cause(ctx); reason.Of(cause) {
	case reason.Unauthenticated, reason.CertificateExpired, reason.KeyReplaced, reason.ShuttingDown, reason.PermissionDenied:
		return cause
	default:
		return nil
	}
}
