package call_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// A decision that cannot be recorded is not executed.
func TestNothingRunsUnrecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Decided)
	r, o, err := w.call(readCall())
	reasontest.Want(t, "no journal", err, reason.JournalUnavailable)
	if o.Decision.Allowed || slices.Contains(r.kinds(), "decision") || slices.Contains(w.trace.take(), "run") {
		t.Errorf("the client saw %v, decision %+v", r.kinds(), o.Decision)
	}
	w.read.Ran(t, 0)
	w.wantJournal(0)
	// Control: with a journal the call runs.
	w.ledger.fail()
	if _, _, err := w.call(readCall()); err != nil {
		t.Errorf("the control: %v", err)
	}
	w.read.Ran(t, 1)
}

// No approval is requested for a call that is not recorded.
func TestUnrecordedApprovalIsNotRequested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Evaluated)
	r, _, err := w.call(runCall())
	reasontest.Want(t, "no journal", err, reason.JournalUnavailable)
	if slices.Contains(r.kinds(), "asked") || slices.Contains(w.trace.take(), "resolve") {
		t.Errorf("somebody was asked: %v", r.kinds())
	}
	w.run.Ran(t, 0)
}

// An approval whose use cannot be recorded does not allow the call, and is not consumed.
func TestApprovedButUnrecordedDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rec approval.Record
	r := w.beginWith(runCall(), func(e call.Event) {
		if e.Resolved != nil {
			w.store.fail(errDisk)
		}
	})
	rec = r.asked()
	w.vote(alice, rec, yes)
	_, err := r.wait()
	reasontest.Want(t, "no journal", err, reason.JournalUnavailable)
	w.run.Ran(t, 0)
	w.open(0)
	w.store.fail(nil)
	if rec, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || rec.State != approval.Allowed {
		t.Errorf("the approval is %s, %v", rec.State, err)
	}
}

// A refusal that cannot be recorded is reported as an outage, not as a refusal.
func TestUnrecordedRefusalIsAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Refused)
	s := readCall()
	s.Input = []byte(`{}`)
	_, _, err := w.call(s)
	reasontest.Want(t, "no journal", err, reason.JournalUnavailable)
	w.ledger.fail()
	_, _, err = w.call(s)
	reasontest.Want(t, "the control", err, reason.InvalidInput)
}

func TestBudgetThatCannotBeReadRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.readErr = errDisk
	_, _, err := w.call(readCall())
	reasontest.Want(t, "no journal", err, reason.JournalUnavailable)
	w.read.Ran(t, 0)
	w.ledger.readErr = nil
	if _, _, err := w.call(readCall()); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// A call whose attestation cannot be signed or recorded fails, and its result is not returned.
// If the journal is writable, the call ends as ambiguous immediately; otherwise it stays open
// until a start closes it.
func TestUnattestedResultStaysInside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*world)
		code  reason.Code
		// open is the number of calls that the next start closes; ended is the reason of the end.
		open  int
		ended reason.Code
	}{
		"notary":  {func(w *world) { w.notary.fail(errors.New("no key")) }, reason.AttestationFailed, 0, reason.AttestationFailed},
		"journal": {func(w *world) { w.ledger.fail(event.Attested) }, reason.JournalUnavailable, 1, reason.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.read.Work = gatewaytest.Reports(`{"content":"the result"}`)
			c.spoil(w)
			r, o, err := w.call(readCall())
			reasontest.Want(t, name, err, c.code)
			if len(o.Report.Result) > 0 || slices.Contains(r.kinds(), "result") || slices.Contains(r.kinds(), "attestation") {
				t.Errorf("the client saw %v and %s", r.kinds(), o.Report.Result)
			}
			w.read.Ran(t, 1)
			w.open(c.open)
			w.notary.fail(nil)
			if n := w.restart(); n != c.open {
				t.Errorf("%d calls were closed", n)
			}
			w.wantJournal(3, event.Ambiguous)
			if p := last[record.Ambiguous](w, event.Ambiguous); p.ProposalID != o.Decision.ProposalID || p.Reason != c.ended {
				t.Errorf("closed %+v", p)
			}
			w.open(0)
			w.read.Ran(t, 1)
			if n := w.restart(); n != 0 {
				t.Errorf("a second start closed %d calls", n)
			}
		})
	}
}

// CloseAmbiguous closes all open calls or none, and can be repeated.
func TestCloseAmbiguousFailsWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Attested)
	for range 3 {
		w.call(readCall())
	}
	w.ledger.fail(event.Ambiguous)
	if n, err := call.CloseAmbiguous(t.Context(), w.ledger); err == nil || n != 0 {
		t.Errorf("closed %d, %v", n, err)
	}
	w.open(3)
	w.ledger.fail()
	if n, err := call.CloseAmbiguous(t.Context(), w.ledger); err != nil || n != 3 {
		t.Errorf("closed %d, %v", n, err)
	}
	w.open(0)
}

// blocked makes a tool run until it is stopped, and signals when it has started.
func blocked(began chan<- struct{}) func(context.Context, tool.Call) tool.Report {
	return func(ctx context.Context, _ tool.Call) tool.Report {
		began <- struct{}{}
		<-ctx.Done()
		report := gatewaytest.Succeeded(``)
		report.Outcome, report.Reason, report.Result = tool.Stopped, string(reason.Cancelled), nil
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			report.Outcome, report.Reason = tool.TimedOut, string(reason.TimedOut)
		}
		return report
	}
}

// TestDisconnectDuringCallIsAttested: a client that disconnects stops the tool; the call is still
// attested.
func TestDisconnectDuringCallIsAttested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.read.Work = blocked(began)
	r := w.begin(readCall())
	<-began
	r.leave()
	o, err := r.wait()
	if err != nil || o.Report.Outcome != tool.Stopped {
		t.Fatalf("got %+v, %v", o.Report, err)
	}
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.open(0)
	w.checkEvidence(o)
}

// A call whose client disconnected before the start is refused.
func TestDisconnectBeforeTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Call(ctx, readCall(), func(call.Event) {})
	reasontest.Want(t, "gone", err, reason.Cancelled)
	w.wantJournal(0, event.Refused)
	w.read.Ran(t, 0)
}

// A call whose client disconnects between the decision and the start gets an end, because the
// decision is already recorded. The tool does not start.
func TestDisconnectBetweenDecisionAndStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var r *running
	ready := make(chan struct{})
	r = w.beginWith(readCall(), func(e call.Event) {
		if e.Decision != nil {
			<-ready
			r.leave()
		}
	})
	close(ready)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.Cancelled) {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.read.Ran(t, 0)
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.checkEvidence(o)
}

func TestDeadlineIsAttested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.read.Work = blocked(make(chan struct{}, 1))
		_, o, err := w.call(readCall())
		if err != nil || o.Report.Outcome != tool.TimedOut || o.Report.Reason != string(reason.TimedOut) {
			t.Fatalf("got %+v, %v", o.Report, err)
		}
		w.checkEvidence(o)
	})
}

func TestPanicIsAttested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(context.Context, tool.Call) tool.Report { panic("boom") }
	_, o, err := w.call(readCall())
	if err != nil || o.Report.Outcome != tool.Failed || o.Report.Reason != string(reason.Internal) {
		t.Fatalf("got %+v, %v", o.Report, err)
	}
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.checkEvidence(o)
}

// An observer of the call receives one chunk at a time and none after the end. This also holds
// for a tool that does not wait for its writers.
func TestOutputIsOrderedAndEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var late func()
	w.read.Work = func(_ context.Context, c tool.Call) tool.Report {
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() { c.Output("stdout", []byte("x")) })
		}
		writers.Wait()
		late = func() { c.Output("stdout", []byte("late")) }
		return gatewaytest.Succeeded(`{}`)
	}
	at := 0
	r := w.beginWith(readCall(), func(call.Event) { at++ }) // a data race if two calls overlap
	must.Get(r.wait())(t)
	late()
	if got := strings.Join(r.kinds(), " "); got != "proposed decision"+strings.Repeat(" output", 8)+" result attestation" {
		t.Errorf("events %s", got)
	}
}

// freeze freezes the gateway like the daemon does.
func (w *world) freeze() int {
	w.t.Helper()
	n := w.Router.Freeze()
	must.Do(w.t, w.Desk.Freezer.Freeze(w.t.Context(), alice, "stop everything"))
	return n
}

func (w *world) thaw() {
	w.t.Helper()
	must.Do(w.t, w.Desk.Freezer.Thaw(w.t.Context(), alice))
	w.Router.Thaw()
}

func TestFreezeBeforeDuringAndAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.read.Work = blocked(began)
	during := w.begin(readCall())
	<-began
	if n := w.freeze(); n != 1 {
		t.Errorf("the freeze stopped %d calls", n)
	}
	o, err := during.wait()
	if err != nil || o.Report.Outcome != tool.Stopped || o.Report.Reason != string(reason.GatewayFrozen) {
		t.Fatalf("the call that ran: %+v, %v", o.Report, err)
	}
	w.checkEvidence(o)

	before := w.head()
	_, _, err = w.call(readCall())
	reasontest.Want(t, "a call while frozen", err, reason.GatewayFrozen)
	w.wantJournal(before, event.Proposed, event.Refused)
	w.read.Ran(t, 1)

	w.thaw()
	w.read.Change(func(p *gatewaytest.Probe) { p.Work = nil })
	if _, o, err := w.call(readCall()); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("after thaw: %+v, %v", o, err)
	}
}

// A freeze while an approval is pending, or between the approval and the decision, prevents the
// call from running.
func TestFreezeBeatsAnApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.beginWith(runCall(), func(e call.Event) {
		if e.Resolved != nil {
			w.freeze()
		}
	})
	w.vote(alice, r.asked(), yes)
	o, err := r.wait()
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.GatewayFrozen {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.run.Ran(t, 0)
	w.open(0)
	w.wantJournal(0, append(asksFirst, event.Voted, event.Answered, event.Frozen, event.Decided)...)
}

// A freeze between the decision and the start prevents the call from running.
func TestFreezeBeatsADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.beginWith(readCall(), func(e call.Event) {
		if e.Decision != nil {
			w.freeze()
		}
	})
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.GatewayFrozen) {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.read.Ran(t, 0)
	w.open(0)
}

func TestStoppingGatewayTakesNoCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.read.Work = blocked(began)
	inside := w.begin(readCall())
	<-began
	ctx, stop := context.WithCancel(context.Background())
	stop()
	ended := make(chan error)
	go func() { ended <- w.Pipeline.Run(ctx, nil) }()
	for {
		// Calls are still accepted until Run has stopped admission.
		if _, err := w.Call(t.Context(), call.Submission{Caller: agent, Tool: "none"}, func(call.Event) {}); reason.Of(err) == reason.ShuttingDown {
			break
		}
	}
	select {
	case <-ended:
		t.Error("the pipeline did not wait for a call")
	default:
	}
	inside.leave()
	must.Check(t, <-ended)
	if o, err := inside.wait(); err != nil || o.Report.Outcome != tool.Stopped {
		t.Errorf("the call inside: %+v, %v", o, err)
	}
}

func TestNewNeedsAllStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, spoil := range map[string]func(*call.Config){
		"evaluator":  func(c *call.Config) { c.Evaluator = nil },
		"approver":   func(c *call.Config) { c.Approver = nil },
		"grants":     func(c *call.Config) { c.Grants = nil },
		"editor":     func(c *call.Config) { c.Editor = nil },
		"dispatcher": func(c *call.Config) { c.Dispatcher = nil },
		"notary":     func(c *call.Config) { c.Notary = nil },
		"ledger":     func(c *call.Config) { c.Ledger = nil },
		"budget":     func(c *call.Config) { c.MaxCallsPerRun = 0 },
		"session":    func(c *call.Config) { c.MaxCallsPerSession = 0 },
		"window":     func(c *call.Config) { c.SessionIdle = 0 },
		"devices":    func(c *call.Config) { c.LiveDevice = nil },
		"standing":   func(c *call.Config) { c.Standing = nil },
	} {
		cfg := w.Pipeline.Config
		spoil(&cfg)
		if _, err := call.New(cfg); err == nil {
			t.Errorf("a pipeline without %s was made", name)
		}
	}
}
