package api_test

import (
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// silentStream is a stream that the server knows and that says nothing.
func (c *client) silentStream() *runClient {
	c.w.t.Helper()
	stream := must.Get(c.gateway().RunStream(c.w.t.Context()))(c.w.t)
	must.Do(c.w.t, stream.Send(nil))
	// The same connection carries it, so the stream is open when it is answered.
	must.Get(c.gateway().ListTools(c.w.t.Context(), &palyrav1.ListToolsRequest{}))(c.w.t)
	return &runClient{c.w.t, stream}
}

// A stream without a first message holds nothing up: neither a stop nor the
// revocation of its device.
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

// What the caller may do counts when it says something, and not when it opened
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
