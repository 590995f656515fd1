package resume_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/call/decision"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/surface/resume"
)

// asking is a pipeline whose call sends a request to its client after the client disconnected.
type asking struct {
	got map[string]json.RawMessage
	err error
}

func (p *asking) Call(ctx context.Context, s toolcall.Submission, observe func(toolcall.Event)) (toolcall.Outcome, error) {
	observe(toolcall.Event{Decision: &decision.Record{Allowed: true}})
	time.Sleep(20 * time.Second)
	p.got, p.err = s.Peer.Ask(ctx, map[string]tool.Request{"q": {Method: "roots/list"}})
	return toolcall.Outcome{}, p.err
}

// TestAskWaitsForClient: a call's request to its client waits for a client, and gets the
// response of the client that resumed the call. Without a client it fails.
func TestAskWaitsForClient(t *testing.T) {
	t.Parallel()
	with := func(answer string) toolcall.Submission {
		s := submission(`{}`)
		s.Peer.Ask = func(context.Context, map[string]tool.Request) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"q": json.RawMessage(answer)}, nil
		}
		return s
	}
	for name, back := range map[string]bool{"comes back": true, "stays away": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &asking{}
				calls := resume.New(p, nil)
				if m := <-begin(t.Context(), calls, with("1"), 10*time.Second); reason.Of(m.err) != reason.StillWaiting {
					t.Fatalf("left with %v", m.err)
				}
				time.Sleep(time.Minute)
				if !back {
					time.Sleep(resume.HeldFor)
					if synctest.Wait(); p.err == nil || p.got != nil {
						t.Errorf("answered %s, %v", p.got, p.err)
					}
					return
				}
				if m := <-begin(t.Context(), calls, with("2"), 10*time.Second); m.err != nil || m.after != 0 || string(p.got["q"]) != "2" {
					t.Errorf("answered %s after %s, %v", p.got["q"], m.after, m.err)
				}
			})
		})
	}
}
