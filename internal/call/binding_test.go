package call_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// flip changes one bound field of a call, in the environment or in the submission.
type flip struct {
	// world changes the tool's plan. It is nil if only the caller or an upgrade can change the
	// field.
	world func(*tool.Binding)
	// call changes the submission.
	call func(*world, *call.Submission)
}

var flips = map[string]flip{
	"principal":    {call: func(_ *world, s *call.Submission) { s.Caller.Principal = access.Agent("other") }},
	"on_behalf_of": {call: func(_ *world, s *call.Submission) { s.Caller.OnBehalfOf = policytest.Bob }},
	"tool": {call: func(w *world, s *call.Submission) {
		s.Tool, s.Input = "http.fetch", []byte(`{"url":"https://example.org/"}`)
		w.fetch.Found.Subject = w.run.Found.Subject
	}},
	"tool_definition_digest": {call: func(w *world, _ *call.Submission) {
		w.run.Of.Description = "now it does more"
		w.Route(w.t)
		w.Connect(w.t)
	}},
	"arguments":       {call: func(_ *world, s *call.Submission) { s.Input = []byte(`{"argv":["make","install"]}`) }},
	"cwd":             {world: func(b *tool.Binding) { b.Cwd = "default:sub" }},
	"argv":            {world: func(b *tool.Binding) { b.Argv = []string{"make", "install"} }},
	"environment":     {world: func(b *tool.Binding) { b.Environment = []string{"LANG=C", "PATH=/tmp"} }},
	"executable":      {world: func(b *tool.Binding) { b.Executable.SHA256 = gatewaytest.Digest("e") }},
	"operands":        {world: func(b *tool.Binding) { b.Operands[0].SHA256 = gatewaytest.Digest("f") }},
	"sandbox_profile": {world: func(b *tool.Binding) { b.SandboxProfile = "c/rw/none" }},
	"egress":          {world: func(b *tool.Binding) { b.Egress = []string{"allowlist", "example.org:443"} }},
	"parsed":          {world: func(b *tool.Binding) { b.Parsed = "sha256:another" }},
	"elsewhere":       {world: func(b *tool.Binding) { b.Elsewhere = true }},
}

func twoAgents(w *world) {
	w.options.TwoUsers = true
	w.options.Members = []access.Member{
		{Principal: access.Agent("other"), Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}, CreatedAt: policytest.Now},
	}
}

// A grant for exactly one call does not cover a call that differs in any bound field. Such a
// call requires approval or is denied.
func TestApprovalCoversNoCallThatDiffersInOneField(t *testing.T) {
	t.Parallel()
	for _, field := range tool.BindingFields {
		t.Run(field, func(t *testing.T) {
			f, ok := flips[field]
			if !ok {
				t.Fatalf("no flip for the bound field %s", field)
			}
			w := newWorld(t, twoAgents)
			first := w.begin(runCall())
			w.vote(bob, first.asked(), approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchExact})
			if o, err := first.wait(); err != nil || !o.Decision.Allowed {
				t.Fatalf("the approved call: %+v, %v", o, err)
			}
			// Control: the identical call is covered.
			if _, o, err := w.call(runCall()); err != nil || !o.Decision.Allowed || o.Decision.GrantID == "" {
				t.Fatalf("the same call again: %+v, %v", o, err)
			}
			ran := w.run.Runs.Load()
			s := runCall()
			if f.world != nil {
				w.run.Change(func(p *gatewaytest.Probe) { p.Found.Binding = clone(p.Found.Binding); f.world(&p.Found.Binding) })
			} else {
				f.call(w, &s)
			}
			w.wantNotCovered(s)
			w.run.Ran(t, ran)
			w.fetch.Ran(t, 0)
		})
	}
}

func clone(b tool.Binding) tool.Binding {
	b.Operands = append([]tool.Operand(nil), b.Operands...)
	return b
}

// wantNotCovered submits a call that must not run without a new answer.
func (w *world) wantNotCovered(s call.Submission) {
	w.t.Helper()
	r := w.begin(s)
	select {
	case <-r.asks:
		r.leave()
		if o, _ := r.wait(); o.Decision.Allowed {
			w.t.Errorf("allowed: %+v", o.Decision)
		}
	case <-r.done:
		if r.err == nil && r.outcome.Decision.Allowed {
			w.t.Errorf("allowed: %+v", r.outcome.Decision)
		}
	}
}

// TestChangeAfterApprovalIsRefused: a binding that changes between the approval and the start
// is detected at dispatch. The error names the field, the tool does not run, and the refusal is
// attested.
func TestChangeAfterApprovalIsRefused(t *testing.T) {
	t.Parallel()
	for field, f := range flips {
		if f.world == nil {
			continue
		}
		t.Run(field, func(t *testing.T) {
			w := newWorld(t)
			r := w.begin(runCall())
			rec := r.asked()
			w.run.Change(func(p *gatewaytest.Probe) { p.Found.Binding = clone(p.Found.Binding); f.world(&p.Found.Binding) })
			w.vote(alice, rec, yes)
			o, err := r.wait()
			if err != nil || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.BindingMismatch) {
				t.Fatalf("got %+v, %v", o, err)
			}
			if !strings.HasSuffix(o.Report.Message, ": "+field) {
				t.Errorf("the message %q does not name %s", o.Report.Message, field)
			}
			w.run.Ran(t, 0)
			w.wantJournal(0, append(asksFirst, event.Voted, event.Answered, event.Consumed, event.Decided, event.Attested)...)
			w.checkEvidence(o)
			// The approval is consumed: restoring the old state does not help.
			w.run.Change(func(p *gatewaytest.Probe) { p.Found.Binding = gatewaytest.NewProbe(p.Of).Found.Binding })
			w.wantNotCovered(runCall())
			w.run.Ran(t, 0)
		})
	}
}

// TestUnchangedBindingRuns is the control of the tests above: with an unchanged binding, the call
// runs.
func TestUnchangedBindingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	w.vote(alice, r.asked(), yes)
	if o, err := r.wait(); err != nil || o.Report.Outcome != tool.Succeeded {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.run.Ran(t, 1)
}

// A vote names the digest that was displayed; a vote for another digest is refused.
func TestVoteForAnotherDigestIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	rec := r.asked()
	_, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, ShownDigest: gatewaytest.Digest("0")})
	reasontest.Want(t, "another digest", err, reason.DigestMismatch)
	w.vote(alice, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Errorf("the control: %+v, %v", o, err)
	}
}
