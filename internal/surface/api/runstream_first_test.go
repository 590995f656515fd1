package api_test

import (
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// silentStream returns a stream that was registered by the server and has no message yet.
func (c *client) silentStream() *runClient {
	c.w.t.Helper()
	stream := must.Get(c.gateway().RunStream(c.w.t.Context()))(c.w.t)
	must.Do(c.w.t, stream.Send(nil))
	// The request uses the same connection, so that the stream is open once its response arrives.
	must.Get(c.gateway().ListTools(c.w.t.Context(), &palyrav1.ListToolsRequest{}))(c.w.t)
	return &runClient{c.w.t, stream}
}

// A stream without a first message ends when the gateway stops, and when its device is revoked.
func TestSilentStreamEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*world)
		code reason.Code
	}{
		"a stop":       {func(w *world) { w.stopping() }, reason.ShuttingDown},
		"a revocation": {func(w *world) { w.revoke(w.coder.device) }, reason.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.firstWait = time.Hour })
			silent := w.coder.silentStream()
			c.end(w)
			ended := time.Now()
			_, err := silent.rest()
			wantError(t, "the stream", err, c.code)
			if took := time.Since(ended); took > must.Patience {
				t.Errorf("it took %s: the wait for the message ended it", took)
			}
		})
	}
}

// A stream's first message requires the permissions at that time, not those at the opening of
// the stream.
func TestFirstMessageNeedsItsPermissionNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, demoted := range []bool{false, true} {
		silent := w.coder.silentStream()
		if demoted {
			w.engine.Swap(w.policySet([]access.Member{{Principal: access.User("alice"), Roles: []access.Role{access.RoleOwner}}}))
		}
		silent.send(startRun("look"))
		_, err := silent.rest()
		if !demoted && err != nil {
			t.Errorf("the control: %v", err)
		}
		if demoted {
			wantError(t, "the start", err, reason.PermissionDenied)
		}
	}
}
