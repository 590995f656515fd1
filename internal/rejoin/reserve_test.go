package rejoin_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/reason"
	"palyra/internal/reason/reasontest"
	"palyra/internal/rejoin"
	"palyra/internal/toolcall"
)

func identified(input, id, session string) toolcall.Submission {
	s := call(input)
	s.CallID, s.Session = id, session
	return s
}

func nothing(toolcall.Event) {}

// A call that was reserved is asked about once, and runs when its client comes.
func TestReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := rejoin.New(p, nil)
		_, _, err := c.Reserve(t.Context(), identified(`{"a":1}`, "toolu_1", "hook"), time.Minute, nothing)
		reasontest.Want(t, "reserved with nobody to answer", err, reason.StillWaiting)
		done := make(chan bool, 1)
		go func() {
			held, _, err := c.Reserve(t.Context(), identified(`{"a": 1}`, "toolu_1", "hook"), time.Minute, nothing)
			done <- held && err == nil
		}()
		synctest.Wait()
		close(p.yes)
		close(p.finish)
		if !<-done || p.runs.Load() != 0 {
			t.Fatalf("it is not held; %d runs", p.runs.Load())
		}
		// Others do not come by it: another id, input, or credential.
		for _, other := range []toolcall.Submission{identified(`{"a":1}`, "toolu_2", "mcp"), identified(`{"a":2}`, "toolu_1", "mcp"), call(`{"a":1}`)} {
			before := p.began.Load()
			if m := <-begin(t.Context(), c, other, 0); m.err != nil || p.began.Load() != before+1 {
				t.Errorf("%+v: %v", other, m.err)
			}
		}
		stranger := identified(`{"a":1}`, "toolu_1", "mcp")
		stranger.Caller.DeviceID = "other"
		before := p.began.Load()
		if <-begin(t.Context(), c, stranger, 0); p.began.Load() != before+1 {
			t.Error("another credential came by it")
		}
		ran := p.runs.Load()
		m := <-begin(t.Context(), c, identified(`{"a":1}`, "toolu_1", "mcp"), 0)
		if m.err != nil || m.outcome.Decision.ProposalID != "call-001" || p.runs.Load() != ran+1 {
			t.Errorf("the call that came: %+v", m)
		}
		// It is used up.
		before = p.began.Load()
		if <-begin(t.Context(), c, identified(`{"a":1}`, "toolu_1", "mcp"), 0); p.began.Load() != before+1 {
			t.Error("it was used twice")
		}
	})
}

func TestReservedAndNeverCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		p.asks = false
		c := rejoin.New(p, nil)
		if held, _, err := c.Reserve(t.Context(), identified(`{}`, "x", "hook"), 0, nothing); !held || err != nil {
			t.Fatal(held, err)
		}
		time.Sleep(rejoin.HeldFor + time.Second)
		if p.runs.Load() != 0 {
			t.Error("it ran")
		}
		// Its end is no answer to a call that comes later.
		close(p.finish)
		if m := <-begin(t.Context(), c, identified(`{}`, "x", "mcp"), 0); m.err != nil || p.began.Load() != 2 {
			t.Errorf("%+v", m)
		}
	})
}

func TestReservedIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := rejoin.New(p, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := c.Reserve(ctx, identified(`{}`, "x", "hook"), 0, nothing)
			done <- err
		}()
		synctest.Wait()
		cancel()
		reasontest.Want(t, "cancelled", <-done, reason.Cancelled)
		if _, _, err := c.Reserve(t.Context(), call(`{}`), 0, nothing); err == nil {
			t.Error("one without an id was reserved")
		}
		for i := range 40 {
			_, _, err := c.Reserve(t.Context(), identified(`{}`, string(rune('a'+i)), "hook"), time.Second, nothing)
			if i >= 32 {
				reasontest.Want(t, "too many", err, reason.RateLimited)
			}
		}
		close(p.yes)
		close(p.finish)
		time.Sleep(3 * rejoin.HeldFor)
	})
}
