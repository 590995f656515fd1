package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/ops/localsocket"
)

// flaky accepts a credential a limited number of times.
type flaky struct{ times int }

func (f *flaky) Authenticate([]*x509.Certificate) (access.Caller, error) {
	if f.times--; f.times < 0 {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "device d was revoked")
	}
	return access.Caller{DeviceID: "d"}, nil
}

func (f *flaky) AuthenticateExpired([]*x509.Certificate) (access.Caller, error) {
	return access.Caller{}, reason.Errorf(reason.Unauthenticated, "it has not expired")
}

func (f *flaky) AuthenticateHost() (access.Caller, error)                   { return f.Authenticate(nil) }
func (f *flaky) AuthenticateAgent(string) (access.Caller, error)            { return f.Authenticate(nil) }
func (f *flaky) NoteUse(context.Context, []*x509.Certificate, string) error { return nil }

// TestRevokedBetweenChecks: a device that is revoked after its authentication, and before its
// request is registered, is detected by the second check.
func TestRevokedBetweenChecks(t *testing.T) {
	t.Parallel()
	for times, known := range map[int]bool{0: false, 1: false, 2: true} {
		var live liveRequests
		var who peer
		h := identify(credentials{auth: &flaky{times}}, &live, slog.New(slog.DiscardHandler), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			who, _ = r.Context().Value(callerKey{}).(peer)
		}))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if who.known != known || (who.err == nil) != known {
			t.Errorf("let in %d times: known %v, %v", times, who.known, who.err)
		}
		if len(live.byDevice) != 0 {
			t.Errorf("let in %d times: %d devices are still live", times, len(live.byDevice))
		}
	}
}

func TestLiveRequestsEndByDevice(t *testing.T) {
	t.Parallel()
	var live liveRequests
	gone := reason.Errorf(reason.Unauthenticated, "device a was revoked")
	enter := func(device string) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return ctx, live.enter(cancel, device, "k", access.Principal{})
	}
	mine, leaveMine := enter("a")
	also, leaveAlso := enter("a")
	other, leaveOther := enter("b")
	leaveAlso()
	if n := live.end("a", gone); n != 1 {
		t.Errorf("%d requests ended", n)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		code reason.Code
	}{"the live one": {mine, reason.Unauthenticated}, "the one that had left": {also, ""}, "another device's": {other, ""}} {
		if got := reason.Of(cut(c.ctx)); got != c.code {
			t.Errorf("%s was cut for %q, want %q", name, got, c.code)
		}
	}
	leaveMine()
	leaveOther()
	if n := live.end("a", gone) + live.end("b", gone); n != 0 || len(live.byDevice) != 0 {
		t.Errorf("%d left, %v", n, live.byDevice)
	}
}

// lasting accepts every credential.
type lasting struct{}

func (lasting) Authenticate([]*x509.Certificate) (access.Caller, error) {
	return access.Caller{DeviceID: "d"}, nil
}

func (lasting) AuthenticateExpired([]*x509.Certificate) (access.Caller, error) {
	return access.Caller{}, reason.Errorf(reason.Unauthenticated, "it has not expired")
}

func (l lasting) AuthenticateHost() (access.Caller, error)        { return l.Authenticate(nil) }
func (l lasting) AuthenticateAgent(string) (access.Caller, error) { return l.Authenticate(nil) }

func (lasting) NoteUse(context.Context, []*x509.Certificate, string) error { return nil }

// Every request ends with the certificate that authenticated it, and its error has that reason.
// This covers a slow unary method, the stream of a call, and a watch.
func TestRequestsEndWithTheirCertificate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var live liveRequests
		began := time.Now()
		end := began.Add(time.Hour)
		for name, c := range map[string]struct {
			end  time.Time
			want time.Duration
			code reason.Code
		}{
			"with a certificate of an hour": {end, time.Hour, reason.CertificateExpired},
			"the control, of a day":         {began.Add(24 * time.Hour), 2 * time.Hour, ""},
		} {
			var took time.Duration
			var code reason.Code
			h := identify(credentials{auth: lasting{}}, &live, slog.New(slog.DiscardHandler), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				start := time.Now()
				select {
				case <-r.Context().Done():
				case <-time.After(2 * time.Hour):
				}
				took, code = time.Since(start), reason.Of(cut(r.Context()))
			}))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			c.end = c.end.Add(time.Since(began))
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: c.end}}}
			h.ServeHTTP(httptest.NewRecorder(), r)
			if took != c.want || code != c.code {
				t.Errorf("%s: ended after %s with %q", name, took, code)
			}
		}
	})
}

// TestSocketRequestsAreRechecked: a request over the socket ends soon after the socket is no
// longer a valid credential. palyrad polls for this, because package identity sends
// notifications only about certificates.
func TestSocketRequestsAreRechecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			socket bool
			times  int
			want   time.Duration
			code   reason.Code
		}{
			"refused at the next look":        {true, 2, socketLook, reason.Unauthenticated},
			"refused at the third":            {true, 4, 3 * socketLook, reason.Unauthenticated},
			"the control, never refused":      {true, 1 << 30, time.Hour, ""},
			"the control, with a certificate": {false, 2, time.Hour, ""},
		} {
			var live liveRequests
			var took time.Duration
			var code reason.Code
			h := identify(credentials{auth: &flaky{c.times}}, &live, slog.New(slog.DiscardHandler), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				start := time.Now()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Hour):
				}
				took, code = time.Since(start), reason.Of(cut(r.Context()))
			}))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			if c.socket {
				r = r.WithContext(localsocket.WithPeer(r.Context(), localsocket.Peer{UID: 1}))
			} else {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: time.Now().Add(24 * time.Hour)}}}
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			if took != c.want || code != c.code {
				t.Errorf("%s: ended after %s with %q", name, took, code)
			}
		}
	})
}

// Long-lived streams are limited for each principal and for the gateway. At the gateway's
// limit, a principal without a stream still gets one.
func TestLastingStreamsAreBounded(t *testing.T) {
	t.Parallel()
	var o openStreams
	var leaves []func()
	open := func(name string, n int) (opened int) {
		for range n {
			leave, err := o.last(access.User(name))
			if err != nil {
				if reason.Of(err) != reason.QuotaExceeded {
					t.Errorf("%v", err)
				}
				continue
			}
			opened++
			leaves = append(leaves, leave)
		}
		return opened
	}
	if n := open("eve", 10*mostStreamsEach); n != mostStreamsEach {
		t.Errorf("one principal has %d streams", n)
	}
	if n := open("bob", 1); n != 1 { // control
		t.Error("another principal has none")
	}
	for i := range 2 * mostStreams / mostStreamsEach {
		open(fmt.Sprintf("u%d", i), mostStreamsEach)
	}
	if o.total > mostStreams+20 {
		t.Errorf("%d streams are open", o.total)
	}
	if n := open("ann", 2); n != 1 {
		t.Errorf("whoever had no stream has %d at the bound", n)
	}
	for _, leave := range leaves {
		leave()
	}
	if o.total != 0 || len(o.lasting) != 0 {
		t.Errorf("%d are counted after all ended", o.total)
	}
}
