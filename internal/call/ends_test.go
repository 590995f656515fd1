package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
)

// ends runs a call of one kind until it ends. The approver allows it; if the vote cannot be
// stored, the caller disconnects.
func (w *world) ends(s call.Submission) {
	w.t.Helper()
	var r *running
	started := make(chan struct{})
	r = w.beginWith(s, func(e call.Event) {
		if e.Asked == nil {
			return
		}
		rec := *e.Asked
		go func() {
			<-started
			b := yes
			b.ShownDigest = rec.CallDigest
			if _, err := w.Desk.Votes.Decide(context.WithoutCancel(w.t.Context()), alice, rec.ID, b); err != nil {
				r.leave()
				_, _ = w.Desk.Records.Cancel(context.WithoutCancel(w.t.Context()), alice, rec.ID, "nobody waits")
			}
		}()
	})
	close(started)
	_, _ = r.wait()
}

// recordings are calls that are recorded in different ways.
var recordings = map[string]struct {
	setup func(*world)
	// before prepares the world for the call; the store refuses no write during it.
	before func(*world)
	call   func() call.Submission
}{
	"recorded at once": {setup: withSum(gatewaytest.NewProbe(sum)), call: sumCall},
	"allowed":          {call: readCall},
	"with a key": {call: func() call.Submission {
		s := readCall()
		s.IdempotencyKey = "key-1"
		return s
	}},
	"approved": {call: runCall},
	"granted":  {before: func(w *world) { w.grant(runCall(), forAnHour) }, call: runCall},
	"with changes": {setup: func(w *world) {
		unattended(w)
		var told gateOf
		w.run.Work = wrote(nil, &told)
	}, call: runCall},
	"with protected changes": {setup: func(w *world) {
		unattended(w)
		var told gateOf
		w.run.Work = wrote(protects(".git/hooks/pre-commit"), &told)
	}, call: runCall},
	"with denied system calls": {setup: func(w *world) {
		w.read.Work = func(context.Context, tool.Call) tool.Report {
			r := gatewaytest.Succeeded(`{}`)
			r.Violations = []tool.Violation{{Syscall: "ptrace"}}
			return r
		}
	}, call: readCall},
}

// TestEveryDecidedCallEnds: the store refuses each write of a call of each kind: once, from
// then on, or as an invalid value. After the next start, every decided call either has an
// attestation or is ambiguous, but never both.
func TestEveryDecidedCallEnds(t *testing.T) {
	t.Parallel()
	for name, kind := range recordings {
		for how, refusal := range map[string]struct {
			err   error
			stays bool
		}{
			"once":       {errDisk, false},
			"for good":   {errDisk, true},
			"what it is": {reason.Errorf(reason.InputTooLarge, "a blob is too large"), false},
		} {
			t.Run(name+", refused "+how, func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					w := newWorld(t, func(w *world) {
						if kind.setup != nil {
							kind.setup(w)
						}
					})
					if kind.before != nil {
						kind.before(w)
					}
					var writes atomic.Int64
					refuse := func() error {
						if at := writes.Add(1); at == n || refusal.stays && at > n {
							return refusal.err
						}
						return nil
					}
					w.refusing(refuse)
					w.ends(kind.call())
					w.refusing(nil)
					w.restart()
					w.everyDecidedCallEnds(fmt.Sprintf("write %d", n))
					if writes.Load() < n {
						if n < 2 {
							t.Fatal("the call wrote nothing")
						}
						return
					}
				}
			})
		}
	}
}

func (w *world) everyDecidedCallEnds(what string) {
	w.t.Helper()
	ends := map[string][]event.Code{}
	for _, e := range w.journal(0) {
		switch e.Code {
		case event.Decided:
			var d struct{ Allowed bool }
			must.Do(w.t, json.Unmarshal(e.Payload, &d))
			if d.Allowed && ends[e.Subject] == nil {
				ends[e.Subject] = []event.Code{}
			}
		case event.Attested, event.Ambiguous:
			ends[e.Subject] = append(ends[e.Subject], e.Code)
		}
	}
	for call, list := range ends {
		if len(list) != 1 {
			w.t.Errorf("%s: call %s ended with %v: %v", what, call, list, w.codes(0))
		}
	}
	w.open(0)
}

// A result that is too large to store reaches its client and is attested by its digest. A
// repeated request cannot fetch it.
func TestResultTooLargeToKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := []byte(`{"content":"` + strings.Repeat("x", call.MaxBlob) + `"}`)
	w.read.Work = gatewaytest.Reports(string(large))
	s := readCall()
	s.IdempotencyKey = "key-1"
	_, o, err := w.call(s)
	if err != nil || !bytes.Equal(o.Report.Result, large) {
		t.Fatalf("%d bytes, %v", len(o.Report.Result), err)
	}
	v := must.Get(attest.Verify(o.Attestation.Envelope.JSON, w.notary.KeySet()))(t)
	if err := v.CheckResult(large); err != nil || !v.Predicate.Outputs.ResultNotKept || v.Predicate.Outputs.ResultBytes != int64(len(large)) {
		t.Errorf("%v, outputs %+v", err, v.Predicate.Outputs)
	}
	if p := last[record.Attested](w, event.Attested); p.ResultBlob != "" || !p.ResultNotKept {
		t.Errorf("journaled blob %q, not kept %v", p.ResultBlob, p.ResultNotKept)
	}
	w.everyDecidedCallEnds("a large result")
	_, again, err := w.call(s)
	reasontest.Want(t, "who comes back", err, reason.NotFound)
	if !strings.Contains(err.Error(), "too large to store") || again.Attestation.Envelope.ID != o.Attestation.Envelope.ID {
		t.Errorf("%v, attestation %s", err, again.Attestation.Envelope.ID)
	}
	w.read.Ran(t, 1)
	// Control: a result of exactly the maximum size is stored.
	w.read.Work = gatewaytest.Reports(string(large[:11]) + `"` + strings.Repeat("x", call.MaxBlob-14) + `"}`)
	if _, o, err = w.call(readCall()); err != nil || len(o.Report.Result) != call.MaxBlob {
		t.Fatalf("%d bytes, %v", len(o.Report.Result), err)
	}
	if p := last[record.Attested](w, event.Attested); p.ResultBlob == "" || p.ResultNotKept || len(w.blob(p.ResultBlob)) != call.MaxBlob {
		t.Errorf("journaled blob %q, not kept %v", p.ResultBlob, p.ResultNotKept)
	}
}

// A call whose caller disconnects is cancelled, in every state in which it can wait.
func TestLeavingIsCancelled(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(e call.Event) bool{
		"after the proposal":      func(e call.Event) bool { return e.Proposed != nil },
		"once people were asked":  func(e call.Event) bool { return e.Asked != nil },
		"before people are asked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var r *running
			begun := make(chan struct{})
			if at == nil {
				w.ledger.after = map[event.Code]func(){event.Evaluated: func() { <-begun; r.leave() }}
			}
			r = w.beginWith(runCall(), func(e call.Event) {
				if <-begun; at != nil && at(e) {
					r.leave()
				}
			})
			close(begun)
			o, err := r.wait()
			codes := w.codes(0)
			switch {
			case slices.Contains(codes, event.Refused):
				reasontest.Want(t, "the client", err, reason.Cancelled)
				if p := last[record.Refused](w, event.Refused); p.Reason != reason.Cancelled {
					t.Errorf("refused for %s: %s", p.Reason, p.Message)
				}
			case o.Decision.Allowed || o.Decision.Reason != reason.Cancelled:
				t.Errorf("decided %+v, journal %v, %v", o.Decision, codes, err)
			}
			if text := w.log.String(); text != "" {
				t.Errorf("a client that left is logged as a fault: %s", text)
			}
		})
	}
}

// A name that is too long for the journal is cut between two characters.
func TestClippedNamesAreText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := readCall()
	s.Tool = "a" + strings.Repeat("é", 100)
	if _, _, err := w.call(s); reason.Of(err) != reason.UnknownTool {
		t.Fatal(err)
	}
	if p := last[record.Refused](w, event.Refused); p.Tool != "a"+strings.Repeat("é", 95) {
		t.Errorf("the journal has the name as %q", p.Tool)
	}
}

// faulty is a tool that cannot plan. Clients do not see the cause.
type faulty struct{ *gatewaytest.Probe }

var errCause = errors.New("the cause of it all")

func (faulty) Plan(context.Context, tool.Proposal) (tool.Plan, error) { return tool.Plan{}, errCause }

// The cause of an internal error is in the log. Neither the client nor the journal receives it.
func TestInternalIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.more = append(w.more, faulty{gatewaytest.NewProbe(sum)})
		w.options.Tools = append(w.options.Tools, sum)
	})
	_, _, err := w.call(sumCall())
	reasontest.Want(t, "a fault", err, reason.Internal)
	if p := last[record.Refused](w, event.Refused); p.Reason != reason.Internal || strings.Contains(err.Error()+p.Message, errCause.Error()) {
		t.Errorf("refused %+v, %v", p, err)
	}
	if text := w.log.String(); !strings.Contains(text, errCause.Error()) || !strings.Contains(text, "tool=sum") || !strings.Contains(text, "proposal=") {
		t.Errorf("the log lacks the cause: %q", text)
	}
	// Control: a refusal with a reason is not logged as a fault.
	before := w.log.String()
	s := readCall()
	s.Tool = "nothing"
	if _, _, err := w.call(s); reason.Of(err) != reason.UnknownTool || w.log.String() != before {
		t.Errorf("%v, the log: %s", err, w.log.String())
	}
}
