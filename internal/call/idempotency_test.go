package call_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

func keyed(s call.Submission) call.Submission {
	s.IdempotencyKey = "key-1"
	return s
}

func TestRetryFollowsTheLiveCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	began := make(chan struct{}, 2)
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		began <- struct{}{}
		<-release
		return gatewaytest.Succeeded(`{"once":true}`)
	}
	first := w.begin(keyed(readCall()))
	<-began
	second := w.begin(keyed(readCall()))
	first.leave() // the call does not end with the client that started it
	_, err := first.wait()
	reasontest.Want(t, "the client that left", err, reason.Cancelled)
	close(release)
	o, err := second.wait()
	if err != nil || string(o.Report.Result) != `{"once":true}` {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "events of the second", second.kinds(), []string{"proposed", "decision", "result", "attestation"})
	w.read.Ran(t, 1)
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
}

// A retry after the end receives the result of the first call, byte for byte, also after a
// restart.
func TestRetryReplaysTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = gatewaytest.Reports(`{"z":1,"a":"\u00e9"}`)
	_, first, err := w.call(keyed(readCall()))
	must.Do(t, err)
	for _, when := range []string{"at once", "after a restart"} {
		head := w.head()
		r, again, err := w.call(keyed(readCall()))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if !bytes.Equal(again.Report.Result, first.Report.Result) || again.Report.Outcome != first.Report.Outcome {
			t.Errorf("%s: result %s, was %s", when, again.Report.Result, first.Report.Result)
		}
		was, is := first.Attestation, again.Attestation
		if is.Seq != was.Seq || is.Envelope.ID != was.Envelope.ID || is.Envelope.SHA256 != was.Envelope.SHA256 || !bytes.Equal(is.Envelope.JSON, was.Envelope.JSON) {
			t.Errorf("%s: attestation\n%+v, was\n%+v", when, is, was)
		}
		if again.Decision.ID != first.Decision.ID || !again.Decision.Allowed {
			t.Errorf("%s: decision %+v", when, again.Decision)
		}
		wantSteps(t, when, r.kinds(), []string{"proposed", "decision", "result", "attestation"})
		if p := r.events[0].Proposed; !p.Replayed || p.ProposalID != first.Decision.ProposalID || p.Tool != "fs.read" || p.InputDigest == "" {
			t.Errorf("%s: proposed %+v", when, p)
		}
		if w.head() != head {
			t.Errorf("%s: the retry was journaled: %v", when, w.codes(head))
		}
		w.restart()
	}
	w.read.Ran(t, 1)
	w.checkEvidence(first)
}

// TestReplayUnderOtherPolicies: a retry receives the result of a completed call only while
// policy permits its caller to make the call. Control: the retry before the change.
func TestReplayUnderOtherPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = gatewaytest.Reports(`{"text":"canary"}`)
	for range 2 {
		if _, o, err := w.call(keyed(readCall())); err != nil || !strings.Contains(string(o.Report.Result), "canary") {
			t.Fatalf("the control: %s, %v", o.Report.Result, err)
		}
	}
	w.reload(`@id("no") @reason("no") forbid(principal, action == Action::"tool.execute/fs.read", resource);`)
	r, o, err := w.call(keyed(readCall()))
	if reason.Of(err) != reason.PolicyDenied || len(o.Report.Result) > 0 || !strings.Contains(err.Error(), "not returned again") {
		t.Errorf("%+v, %v", o.Report, err)
	}
	wantSteps(t, "the events", r.kinds(), []string{"proposed"})
	w.read.Ran(t, 1)
}

func TestKeyBelongsToOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoAgents)
	if _, _, err := w.call(keyed(readCall())); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*call.Submission){
		"input":   func(s *call.Submission) { s.Input = []byte(`{"path":"b"}`) },
		"tool":    func(s *call.Submission) { s.Tool = "vault.put" },
		"session": func(s *call.Submission) { s.Session = "another" },
		"run":     func(s *call.Submission) { s.Run = "another" },
		"channel": func(s *call.Submission) { s.Channel = "another" },
	} {
		s := keyed(readCall())
		change(&s)
		_, _, err := w.call(s)
		reasontest.Want(t, "another "+name, err, reason.IdempotencyMismatch)
	}
	w.read.Ran(t, 1)
	w.secret.Ran(t, 0)
	// The same input in another JSON form is the same call. Keys of different principals are
	// independent.
	same := keyed(readCall())
	same.Input = []byte(` {"path": "\u0061"}`)
	if _, _, err := w.call(same); err != nil {
		t.Errorf("the same input, written otherwise: %v", err)
	}
	w.read.Ran(t, 1)
	theirs := keyed(readCall())
	theirs.Caller.Principal = access.Agent("other")
	if _, _, err := w.call(theirs); err != nil {
		t.Errorf("another principal's: %v", err)
	}
	w.read.Ran(t, 2)
}

// A mismatch is also detected while the first call is still running.
func TestKeyOfALiveCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	release := make(chan struct{})
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		began <- struct{}{}
		<-release
		return gatewaytest.Succeeded(`{}`)
	}
	first := w.begin(keyed(readCall()))
	<-began
	other := keyed(readCall())
	other.Input = []byte(`{"path":"b"}`)
	_, _, err := w.call(other)
	reasontest.Want(t, "another input", err, reason.IdempotencyMismatch)
	close(release)
	if _, err := first.wait(); err != nil {
		t.Error(err)
	}
	w.read.Ran(t, 1)
}

func TestManySubmissionsRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			o, err := w.Call(t.Context(), keyed(readCall()), func(call.Event) {})
			mu.Lock()
			defer mu.Unlock()
			must.Check(t, err)
			seen[o.Attestation.Envelope.ID]++
		})
	}
	wg.Wait()
	w.read.Ran(t, 1)
	if len(seen) != 1 {
		t.Errorf("%d attestations: %v", len(seen), seen)
	}
	// Control: without a key, each call runs.
	for range 3 {
		w.call(readCall())
	}
	w.read.Ran(t, 4)
}

// A call that a crash interrupted has ended: a retry receives that outcome and never runs the
// call again.
func TestInterruptedCallNeverRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Attested)
	_, _, err := w.call(keyed(readCall()))
	reasontest.Want(t, "the interrupted call", err, reason.JournalUnavailable)
	w.ledger.fail()
	for _, when := range []string{"before the restart", "after it", "and again"} {
		r, o, err := w.call(keyed(readCall()))
		reasontest.Want(t, when, err, reason.OutcomeUnknown)
		if len(o.Report.Result) > 0 || slices.Contains(r.kinds(), "result") {
			t.Errorf("%s: %+v", when, o)
		}
		w.restart()
	}
	w.read.Ran(t, 1)
}

// A call that was recorded but not decided when the gateway stopped did not run. A retry with
// its key proposes it again, and the approver still has the same question.
func TestCallInterruptedBeforeItsDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(keyed(runCall()))
	rec := r.asked()
	w.ledger.fail(event.Refused, event.Decided)
	w.StopDesk()
	if _, err := r.wait(); err == nil {
		t.Fatal("the call ended well")
	}
	w.ledger.fail()
	w.start()
	again := w.begin(keyed(runCall()))
	if rec2 := again.asked(); rec2.ID != rec.ID {
		t.Errorf("the retry asks %s, the first asked %s", rec2.ID, rec.ID)
	}
	w.vote(alice, rec, yes)
	if o, err := again.wait(); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("the retry gives %+v, %v", o.Report, err)
	}
	w.run.Ran(t, 1)
	// Once decided, the call never starts again under its key.
	if _, _, err := w.call(keyed(runCall())); err != nil {
		t.Error(err)
	}
	w.run.Ran(t, 1)
}

// A call that a freeze refused may be repeated under the same key.
func TestRetryAfterAFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Router.Freeze()
	_, _, err := w.call(keyed(readCall()))
	reasontest.Want(t, "while frozen", err, reason.GatewayFrozen)
	w.Router.Thaw()
	if _, o, err := w.call(keyed(readCall())); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("after the thaw: %+v, %v", o.Report, err)
	}
	w.read.Ran(t, 1)
}

func TestRetryOfADenialIsTheDenial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(keyed(runCall()))
	w.vote(alice, r.asked(), no)
	first := must.Get(r.wait())(t)
	r, again, err := w.call(keyed(runCall()))
	if err != nil || again.Decision.ID != first.Decision.ID || again.Decision.Reason != reason.ApprovalDenied ||
		again.Decision.Message != first.Decision.Message || again.Decision.Remedy != first.Decision.Remedy {
		t.Errorf("got %+v, %v, was %+v", again.Decision, err, first.Decision)
	}
	wantSteps(t, "events", r.kinds(), []string{"proposed", "decision"})
	w.run.Ran(t, 0)
}

func TestRetryOfARefusalIsTheRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := keyed(readCall())
	s.Input = []byte(`{"path":1}`)
	_, _, first := w.call(s)
	reasontest.Want(t, "the first", first, reason.InvalidInput)
	head := w.head()
	_, _, again := w.call(s)
	reasontest.Want(t, "the retry", again, reason.InvalidInput)
	if first.Error() != again.Error() || w.head() != head {
		t.Errorf("was %q, is %q; journal %v", first, again, w.codes(head))
	}
}

// A call whose key could not be recorded did not run, so a retry runs it.
func TestRetryOfAnUnrecordedCallRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.fail(event.Decided)
	_, _, err := w.call(keyed(readCall()))
	reasontest.Want(t, "unrecorded", err, reason.JournalUnavailable)
	w.ledger.fail()
	if _, o, err := w.call(keyed(readCall())); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("the retry: %+v, %v", o, err)
	}
	w.read.Ran(t, 1)
}

// No call starts if its key cannot be looked up.
func TestUnreadableKeysStartNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.readErr = errDisk
	_, _, err := w.call(keyed(readCall()))
	if err == nil {
		t.Error("the call was let in")
	}
	w.read.Ran(t, 0)
	w.ledger.readErr = nil
	if _, _, err := w.call(keyed(readCall())); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// closed returns a channel that is already closed, as a grace period that is over.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// A call without a connected client gets the grace period when the gateway stops. It is then
// stopped, and attested.
func TestStopWaitsForCallsWithoutAClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.read.Work = blocked(began)
	r := w.begin(keyed(readCall()))
	<-began
	r.leave()
	r.wait()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	must.Do(t, w.Pipeline.Run(ctx, closed()))
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.open(0)
	p := last[struct {
		Report tool.Report `json:"report"`
	}](w, event.Attested)
	if p.Report.Outcome != tool.Stopped {
		t.Errorf("the call ended %s", p.Report.Outcome)
	}
}

// A call without a key also ends at the stop, after the grace period. Its client receives the
// attested outcome with the reason. Until then the call is listed as running.
func TestStopEndsCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.read.Work = func(ctx context.Context, _ tool.Call) tool.Report {
		began <- struct{}{}
		<-ctx.Done()
		report := gatewaytest.Succeeded(`{}`)
		report.Outcome, report.Reason = tool.Stopped, string(reason.Of(context.Cause(ctx)))
		return report
	}
	r := w.begin(readCall())
	<-began
	if list := w.Pipeline.Running(); len(list) != 1 || list[0].Tool != "fs.read" || list[0].Principal != agent.Principal {
		t.Errorf("running: %v", list)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	must.Do(t, w.Pipeline.Run(ctx, closed()))
	o, err := r.wait()
	if err != nil || o.Report.Outcome != tool.Stopped || o.Report.Reason != string(reason.ShuttingDown) || o.Attestation.Envelope.ID == "" {
		t.Errorf("the call ended with %+v, %v", o, err)
	}
	if list := w.Pipeline.Running(); len(list) != 0 {
		t.Errorf("still running: %v", list)
	}
}

// A call with a key that was decided before the stop, but whose tool never started, runs when
// it is repeated. Control: if the tool had started, the retry receives the recorded outcome.
func TestRetryAfterAStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		started bool
		runs    int32
		again   tool.Outcome
	}{
		"never started": {false, 1, tool.Succeeded},
		"started":       {true, 1, tool.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			began := make(chan struct{}, 1)
			w.read.Work = blocked(began)
			if !c.started {
				// dispatch plans a call again after its decision.
				w.read.OnPlan = func(int) {
					if slices.Contains(w.codes(0), event.Decided) {
						w.Pipeline.CutOff()
					}
				}
			}
			r := w.begin(keyed(readCall()))
			if c.started {
				<-began
				w.Pipeline.CutOff()
			}
			o, err := r.wait()
			if err != nil || o.Report.Outcome == tool.Succeeded {
				t.Fatalf("the first: %+v, %v", o, err)
			}
			w.restart()
			w.read.OnPlan, w.read.Work = nil, gatewaytest.Reports(`{}`)
			if _, o, err = w.call(keyed(readCall())); err != nil || o.Report.Outcome != c.again {
				t.Errorf("the retry: %+v, %v", o.Report, err)
			}
			w.read.Ran(t, c.runs)
		})
	}
}

// A call with a key that waits for an approval when the gateway stops leaves the approval
// pending for the next start.
func TestStopLeavesTheApprovalPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(keyed(runCall()))
	rec := r.asked()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	must.Do(t, w.Pipeline.Run(ctx, closed()))
	_, err := r.wait()
	reasontest.Want(t, "the call", err, reason.ShuttingDown)
	if rec, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || rec.State != approval.Pending {
		t.Errorf("the approval is %s, %v", rec.State, err)
	}
	w.run.Ran(t, 0)
}

// A call that waits for an approval continues without its clients: a lost connection loses
// neither the answer nor the result.
func TestCallOutlivesItsClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.begin(keyed(runCall()))
	rec := first.asked()
	first.leave()
	_, err := first.wait()
	reasontest.Want(t, "the client that left", err, reason.Cancelled)
	if rec, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || rec.State != approval.Pending {
		t.Fatalf("with no client left the approval is %s, %v", rec.State, err)
	}
	w.run.Ran(t, 0)
	w.vote(alice, rec, approval.Ballot{Allow: true})
	w.drain()
	w.run.Ran(t, 1)
	w.restart()
	_, o, err := w.call(keyed(runCall()))
	if err != nil || o.Report.Outcome != tool.Succeeded {
		t.Errorf("coming back for the result gives %+v, %v", o.Report, err)
	}
	w.run.Ran(t, 1)
}

// Output reaches the clients of a call with a key while it runs, up to a bound.
func TestFollowersGetOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	buffer := bytes.Repeat([]byte("x"), 1<<19)
	w.read.Work = func(_ context.Context, c tool.Call) tool.Report {
		for range 4 {
			c.Output("stdout", buffer)
		}
		clear(buffer)
		return gatewaytest.Succeeded(`{}`)
	}
	var got []byte
	_, err := w.Pipeline.Call(t.Context(), keyed(readCall()), func(e call.Event) {
		if e.Output != nil {
			got = append(got, e.Output.Data...)
		}
	})
	if err != nil || len(got) != 1<<20 || bytes.ContainsFunc(got, func(r rune) bool { return r != 'x' }) {
		t.Errorf("%d bytes of output, %v; want the first mebibyte as it was written", len(got), err)
	}
}

// drain waits for the calls that run without a client.
func (w *world) drain() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	must.Do(w.t, w.Pipeline.Run(ctx, nil))
}
