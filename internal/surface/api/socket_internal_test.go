package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/ops/localsocket"
)

// TestSocketCaller: only a peer that the listener accepts is the local operator, and a token in
// addition to the socket is refused. A request that did not come over the socket has no caller,
// regardless of its headers.
func TestSocketCaller(t *testing.T) {
	t.Parallel()
	refused := reason.Errorf(reason.Unauthenticated, "the socket is for uid 1, and not for uid 2")
	for name, c := range map[string]struct {
		peer  *localsocket.Peer
		token string
		known bool
	}{
		"the owner":               {peer: &localsocket.Peer{UID: 1}, known: true},
		"another uid":             {peer: &localsocket.Peer{UID: 2, Refused: refused}},
		"nobody knows":            {peer: &localsocket.Peer{UID: -1, Refused: refused}},
		"the owner, with a token": {peer: &localsocket.Peer{UID: 1}, token: "Bearer pal_x_y"},
		"no socket":               {},
	} {
		var live liveRequests
		var who peer
		h := identify(credentials{auth: &flaky{2}}, &live, slog.New(slog.DiscardHandler), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			who, _ = r.Context().Value(callerKey{}).(peer)
		}))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if c.peer != nil {
			r = r.WithContext(localsocket.WithPeer(r.Context(), *c.peer))
			r.RemoteAddr = "@"
		}
		if c.token != "" {
			r.Header.Set("Authorization", c.token)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if who.known != c.known || who.known != who.presents(NeedsDevice) {
			t.Errorf("%s: known %v, %v", name, who.known, who.err)
		}
		if who.presents(NeedsCertificate) || who.presents(NeedsRenewable) {
			t.Errorf("%s: it counts as a certificate", name)
		}
		if c.peer != nil && (who.address != c.peer.String() || len(who.keys()) != 1) {
			t.Errorf("%s: its requests count for %q, from %q", name, who.keys(), who.address)
		}
	}
}
