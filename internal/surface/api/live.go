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

// liveRequests are the requests under way, by the device that made them, so
// that a revoked device keeps no stream.
type liveRequests struct {
	mu       sync.Mutex
	byDevice map[string]map[int]liveRequest
	next     int
}

type liveRequest struct {
	cancel context.CancelCauseFunc
	// key is the digest of the key that the device showed.
	key string
	// vouched is whom another issuer vouched for, zero for a credential of the
	// gateway's own.
	vouched access.Principal
}

// enter registers a request of a device with a key, which cancel ends; leave must be
// called when it ended.
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

// end ends the requests of a device and returns how many there were.
func (l *liveRequests) end(device string, why error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.byDevice[device] {
		r.cancel(why)
	}
	return len(l.byDevice[device])
}

// endKey ends the requests that a device made with a key, and returns how many there
// were.
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

// endVouched ends the requests of a member for whom another issuer vouched, and returns
// how many there were.
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

// The bounds of streams that last: each costs tens of kilobytes, and what happens is sent to
// all of them.
const (
	mostStreamsEach = 256
	mostStreams     = 2048
)

// openStreams are the streams that were let in, each with what looks whether its caller
// may still use it.
type openStreams struct {
	mu    sync.Mutex
	looks map[int]func()
	next  int
	// lasting counts those that last, by principal, and total all of them.
	lasting map[access.Principal]int
	total   int
}

// last counts a stream that lasts; leave must be called when it ended. At the bound of the
// gateway a principal that has none still gets one, so that nobody keeps others out.
func (o *openStreams) last(of access.Principal) (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.lasting[of]
	if own >= mostStreamsEach || o.total >= mostStreams && own > 0 {
		return nil, reason.Errorf(reason.QuotaExceeded, "%s has %s open, and the gateway %d", of, text.Plural(own, "stream"), o.total).
			WithRemedy("Close some: pages of the console, and commands that follow something.")
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

// enter registers a stream; leave must be called when it ended. A stream enters before its
// permission is looked at for the first time, so that no change comes in between.
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

// look looks at all streams again.
func (o *openStreams) look() {
	o.mu.Lock()
	looks := slices.Collect(maps.Values(o.looks))
	o.mu.Unlock()
	for _, look := range looks {
		look()
	}
}

// until ends a request at the end of its credential, so that no stream is older than
// what let it in, and says why; stop must be called when the request ended.
func until(cancel context.CancelCauseFunc, end time.Time, why func() error) (stop func()) {
	if end.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(end), func() { cancel(why()) })
	return func() { timer.Stop() }
}

// socketLook is how often a request over the socket of the local operator is looked at
// again: whoever puts the operator's key elsewhere tells no palyrad, and it ends the
// socket.
const socketLook = 5 * time.Second

// whileGood ends a request once its credential is refused; stop must be called when the
// request ended.
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

// cut returns why the gateway itself ended a request, nil when it did not.
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
