package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"palyra/internal/access"
	"palyra/internal/reason"
)

// flaky lets a device in a number of times.
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

func (f *flaky) AuthenticateHost() (access.Caller, error) { return f.Authenticate(nil) }

// A device that is revoked after it was let in and before its request is live
// is seen by the second look.
func TestRevokeBetweenTheLooks(t *testing.T) {
	for times, known := range map[int]bool{0: false, 1: false, 2: true} {
		var live liveRequests
		var who peer
		h := identify(&flaky{times}, nil, &live, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
	var live liveRequests
	gone := reason.Errorf(reason.Unauthenticated, "device a was revoked")
	mine, leaveMine := live.enter(t.Context(), "a")
	also, leaveAlso := live.enter(t.Context(), "a")
	other, leaveOther := live.enter(t.Context(), "b")
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
