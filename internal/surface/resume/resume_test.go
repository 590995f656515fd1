package resume_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/surface/resume"
)

// pipeline is a pipeline whose approvals and tools the test controls.
type pipeline struct {
	asks    bool
	yes     chan struct{}
	finish  chan struct{}
	began   atomic.Int32
	runs    atomic.Int32
	ignores bool // skips Hold
}

func newPipeline() *pipeline {
	return &pipeline{asks: true, yes: make(chan struct{}), finish: make(chan struct{})}
}

func (p *pipeline) Call(ctx context.Context, s toolcall.Submission, observe func(toolcall.Event)) (toolcall.Outcome, error) {
	n := p.began.Add(1)
	observe(toolcall.Event{Proposed: &toolcall.Proposed{ProposalID: fmt.Sprintf("call-%03d", n), Tool: s.Tool}})
	if p.asks {
		observe(toolcall.Event{Asked: &approval.Record{ID: "ask-1", State: approval.Pending, ExpiresAt: time.Now().Add(10 * time.Minute)}})
		select {
		case <-p.yes:
		case <-ctx.Done():
			return toolcall.Outcome{}, context.Cause(ctx)
		}
		observe(toolcall.Event{Resolved: &approval.Answer{}})
	}
	if !p.ignores {
		if err := s.Hold(ctx); err != nil {
			return toolcall.Outcome{}, err
		}
	}
	p.runs.Add(1)
	decided := decision.Record{Allowed: true, ProposalID: fmt.Sprintf("call-%03d", n)}
	observe(toolcall.Event{Decision: &decided})
	select {
	case <-p.finish:
	case <-ctx.Done():
		return toolcall.Outcome{Decision: decided}, context.Cause(ctx)
	}
	return toolcall.Outcome{Decision: decided}, nil
}

func submission(input string) toolcall.Submission {
	return toolcall.Submission{Caller: gatewaytest.Agent, Tool: "process.run", Input: []byte(input), Session: "mcp"}
}

// made is the outcome of a call.
type made struct {
	kinds   []string
	outcome toolcall.Outcome
	err     error
	after   time.Duration
}

func begin(ctx context.Context, c *resume.Calls, s toolcall.Submission, limit time.Duration) <-chan made {
	done := make(chan made, 1)
	go func() {
		m, at := made{}, time.Now()
		m.outcome, m.err = c.Call(ctx, s, limit, func(e toolcall.Event) { m.kinds = append(m.kinds, kind(e)) })
		m.after = time.Since(at)
		done <- m
	}()
	return done
}

func kind(e toolcall.Event) string {
	switch {
	case e.Proposed != nil:
		return "proposed"
	case e.Asked != nil:
		return "asked"
	case e.Resolved != nil:
		return "resolved"
	case e.Decision != nil:
		return "decision"
	}
	return "?"
}

func stillWaiting(t *testing.T, m made, after time.Duration) {
	t.Helper()
	reasontest.Want(t, "the call that was left", m.err, reason.StillWaiting)
	if m.after != after {
		t.Errorf("left after %s, want %s", m.after, after)
	}
}

func TestDisconnectAndRejoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := resume.New(p, nil)
		first := <-begin(t.Context(), c, submission(`{"a":1}`), time.Minute)
		stillWaiting(t, first, 55*time.Second)
		known := reason.Known(first.err, reason.Internal)
		if known.Fields["approval_id"] != "ask-1" || known.Fields["proposal_id"] != "call-001" || known.Fields["expires_at"] == "" {
			t.Errorf("fields %v", known.Fields)
		}
		close(p.yes)
		time.Sleep(4 * time.Minute) // the call does not start without a client
		if p.runs.Load() != 0 {
			t.Fatal("the call ran with nobody there")
		}
		second := begin(t.Context(), c, submission(` {"a": 1}`), time.Minute) // the same input, reformatted
		synctest.Wait()
		close(p.finish)
		m := <-second
		if m.err != nil || !m.outcome.Decision.Allowed || fmt.Sprint(m.kinds) != "[proposed asked resolved decision]" {
			t.Errorf("the repeated call: %+v", m)
		}
		if p.began.Load() != 1 || p.runs.Load() != 1 {
			t.Errorf("%d calls, %d runs", p.began.Load(), p.runs.Load())
		}
		// An outcome that was delivered is no longer available: the same submission is a new call.
		<-begin(t.Context(), c, submission(`{"a":1}`), time.Minute)
		if p.began.Load() != 2 {
			t.Error("a call joined one whose end was told")
		}
	})
}

// TestApprovalIsHeldForFiveMinutes: a call that no client resumed does not start. Control:
// without the hold it starts.
func TestApprovalIsHeldForFiveMinutes(t *testing.T) {
	t.Parallel()
	for _, unprotected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeline()
			p.ignores = unprotected
			close(p.finish)
			c := resume.New(p, nil)
			stillWaiting(t, <-begin(t.Context(), c, submission(`{}`), time.Minute), 55*time.Second)
			close(p.yes)
			time.Sleep(resume.HeldFor + time.Second)
			if ran := p.runs.Load() == 1; ran != unprotected {
				t.Fatalf("unprotected %v, ran %v", unprotected, ran)
			}
			if unprotected {
				return
			}
			late := <-begin(t.Context(), c, submission(`{}`), time.Minute)
			reasontest.Want(t, "who comes back late", late.err, reason.ApprovalExpired)
			time.Sleep(resume.HeldFor + time.Second)
		})
	}
}

func TestStopEndsHeldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		stopping := make(chan struct{})
		c := resume.New(p, stopping)
		<-begin(t.Context(), c, submission(`{}`), time.Minute)
		close(p.yes)
		close(stopping)
		synctest.Wait()
		reasontest.Want(t, "after the stop", (<-begin(t.Context(), c, submission(`{}`), time.Minute)).err, reason.ShuttingDown)
		if p.runs.Load() != 0 {
			t.Error("it ran")
		}
	})
}

func TestCancelEndsTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := resume.New(p, nil)
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, c, submission(`{}`), time.Minute)
		synctest.Wait()
		cancel()
		reasontest.Want(t, "the cancelled call", (<-first).err, reason.Cancelled)
		second := begin(t.Context(), c, submission(`{}`), time.Minute)
		synctest.Wait()
		if p.began.Load() != 2 {
			t.Error("a call joined a cancelled one")
		}
		stillWaiting(t, <-second, 55*time.Second)
		// A resumed call is cancelled by the client that resumed it.
		ctx, cancel = context.WithCancel(t.Context())
		third := begin(ctx, c, submission(`{}`), time.Minute)
		synctest.Wait()
		cancel()
		reasontest.Want(t, "the joined call", (<-third).err, reason.Cancelled)
	})
}

func TestOnlyTheSameCallJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := resume.New(p, nil)
		stillWaiting(t, <-begin(t.Context(), c, submission(`{}`), time.Minute), 55*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan made
		for _, change := range []func(*toolcall.Submission){
			func(s *toolcall.Submission) { s.Input = []byte(`{"a":2}`) },
			func(s *toolcall.Submission) { s.Tool = "fs.write" },
			func(s *toolcall.Submission) { s.Session = "another" },
			func(s *toolcall.Submission) { s.Caller.Principal = access.Agent("other") },
			func(s *toolcall.Submission) { s.Caller.OnBehalfOf = access.User("other") },
			func(s *toolcall.Submission) { s.Caller.DeviceID = "other" },
		} {
			s := submission(`{}`)
			change(&s)
			before := p.began.Load()
			all = append(all, begin(ctx, c, s, 0))
			if synctest.Wait(); p.began.Load() != before+1 {
				t.Errorf("joined: %+v", s)
			}
		}
		// Two simultaneous clients have two calls. Control: a next client resumes the first one's
		// call.
		before := p.began.Load()
		all = append(all, begin(ctx, c, submission(`{}`), 0))
		if synctest.Wait(); p.began.Load() != before {
			t.Error("the same call did not join")
		}
		all = append(all, begin(ctx, c, submission(`{}`), 0))
		if synctest.Wait(); p.began.Load() != before+1 {
			t.Error("a call joined one whose client is there")
		}
		cancel()
		for _, one := range all {
			<-one
		}
	})
}

func TestWaitForApprovalRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := resume.New(p, nil)
		observe := func(toolcall.Event) {}
		for range 2 {
			_, err := c.CallFor(t.Context(), submission(`{}`), resume.Stay{Asks: func(string) bool { return true }}, observe)
			reasontest.Want(t, "asked", err, reason.StillWaiting)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.CallFor(t.Context(), submission(`{}`), resume.Stay{Asks: func(id string) bool { return id != "ask-1" }}, observe)
			done <- err
		}()
		synctest.Wait()
		close(p.yes)
		close(p.finish)
		if err := <-done; err != nil || p.began.Load() != 1 {
			t.Errorf("%v after %d calls", err, p.began.Load())
		}
	})
}

// TestClientDisconnected: a client that disconnects leaves its call in the same state as a client
// whose timeout expired.
func TestClientDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		c := resume.New(p, nil)
		gone, done := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := c.CallFor(t.Context(), submission(`{}`), resume.Stay{Gone: gone}, func(toolcall.Event) {})
			done <- err
		}()
		synctest.Wait()
		close(gone)
		reasontest.Want(t, "gone", <-done, reason.StillWaiting)
		stillWaiting(t, <-begin(t.Context(), c, submission(`{}`), time.Minute), 55*time.Second)
		if p.began.Load() != 1 {
			t.Error("the call was not joined")
		}
		close(p.yes)
		close(p.finish)
		<-begin(t.Context(), c, submission(`{}`), time.Minute)
	})
}

// TestCancelAfterDisconnect: a cancellation that follows a disconnect ends the call, unless a
// client resumed it.
func TestCancelAfterDisconnect(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipeline()
			c := resume.New(p, nil)
			ctx, cancel := context.WithCancel(t.Context())
			gone, done := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := c.CallFor(ctx, submission(`{}`), resume.Stay{Gone: gone}, func(toolcall.Event) {})
				done <- err
			}()
			synctest.Wait()
			close(gone)
			synctest.Wait()
			var second <-chan made
			if back {
				second = begin(t.Context(), c, submission(`{}`), time.Minute)
				synctest.Wait()
			}
			cancel()
			reasontest.Want(t, "gone", <-done, reason.StillWaiting)
			close(p.yes)
			close(p.finish)
			if !back {
				second = begin(t.Context(), c, submission(`{}`), time.Minute)
			}
			if m := <-second; m.err != nil || (p.began.Load() == 1) != back {
				t.Errorf("back %v: %d calls, %v", back, p.began.Load(), m.err)
			}
		})
	}
}

// TestRunningCallContinues: a permitted call continues without a client, and its outcome is kept
// for some time.
func TestRunningCallContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline()
		p.asks = false
		c := resume.New(p, nil)
		first := <-begin(t.Context(), c, submission(`{}`), 10*time.Second)
		stillWaiting(t, first, 5*time.Second)
		if known := reason.Known(first.err, reason.Internal); known.Fields["approval_id"] != "" || known.Fields["proposal_id"] != "call-001" {
			t.Errorf("fields %v", known.Fields)
		}
		close(p.finish)
		time.Sleep(4 * time.Minute)
		if m := <-begin(t.Context(), c, submission(`{}`), time.Minute); m.err != nil || m.outcome.Decision.ProposalID != "call-001" {
			t.Errorf("the end of the call: %+v", m)
		}
		for range 40 { // more outcomes than are kept
			p.finish = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			<-begin(ctx, c, submission(fmt.Sprintf(`{"n":%d}`, p.began.Load())), 10*time.Second)
			cancel() // the client has already left
			close(p.finish)
			synctest.Wait()
		}
		began := p.began.Load()
		<-begin(t.Context(), c, submission(`{"n":1}`), time.Minute)
		if p.began.Load() != began+1 {
			t.Error("the oldest end was kept")
		}
		<-begin(t.Context(), c, submission(`{"n":40}`), time.Minute)
		if p.began.Load() != began+1 {
			t.Error("the newest end was not kept")
		}
		time.Sleep(resume.HeldFor + time.Second)
		<-begin(t.Context(), c, submission(`{"n":39}`), time.Minute)
		if p.began.Load() != began+2 {
			t.Error("an end is kept for ever")
		}
	})
}

func TestRefusesOthers(t *testing.T) {
	t.Parallel()
	c := resume.New(newPipeline(), nil)
	keyed, held := submission(`{}`), submission(`{}`)
	keyed.IdempotencyKey = "k"
	held.Hold = func(context.Context) error { return nil }
	for _, s := range []toolcall.Submission{keyed, held} {
		if _, err := c.Call(t.Context(), s, 0, nil); err == nil {
			t.Error("it was made")
		}
	}
}
