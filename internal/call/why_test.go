package call_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// ticket requires a reason before the approval of a program is requested.
const ticket = `@id("why.ticket") @ask_reason("Which ticket?") forbid (principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`

func withTicket(w *world) {
	withCarol(w)
	w.options.Policies = ticket
}

func submissionWithReason(why string) call.Submission {
	s := runCall()
	s.Reason, s.ReasonBy = why, "Say it."
	return s
}

// No approval is requested without the reason that a policy requires. The error contains the
// question, and how to give the reason.
func TestNoAskWithoutAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTicket)
	for _, why := range []string{"", " \n\t"} {
		_, err := w.Call(t.Context(), submissionWithReason(why), func(e call.Event) {
			if e.Asked != nil {
				t.Errorf("%q: people were asked", why)
			}
		})
		known := &reason.Error{}
		if !errors.As(err, &known) || known.Code != reason.RequestReasonNeeded || !strings.Contains(known.Message, "Which ticket?") ||
			known.NextStep() != "Say it." || known.Fields["question"] != "Which ticket?" {
			t.Errorf("%q: %+v", why, err)
		}
	}
	w.run.Ran(t, 0)
	refused := 0
	for _, e := range w.journal(0) {
		switch e.Code {
		case event.Asked:
			t.Error("an ask is on record")
		case event.Refused:
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d refusals are on record", refused)
	}
	if list, _, err := w.Desk.Records.List(t.Context(), approval.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("approvals: %+v, %v", list, err)
	}
}

// Control: with a reason, an approval is requested that displays it. The reason is journaled
// with the ask and is not part of the call. Without the policy no reason is required.
func TestAskWithAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTicket)
	secret := "ghp_" + strings.Repeat("aB3", 12)
	r := w.begin(submissionWithReason(" OPS-7, with " + secret + "\u202e"))
	rec := r.asked()
	if s := rec.Prompt.RequesterReason; !strings.HasPrefix(s, "OPS-7, with [redacted]") || strings.ContainsRune(s, '\u202e') {
		t.Errorf("shown: %q", rec.Prompt.RequesterReason)
	}
	w.vote(bob, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	asked := 0
	for _, e := range w.journal(0) {
		if strings.Contains(string(e.Payload), secret) {
			t.Errorf("the key is in the journal: %s", e.Payload)
		}
		if e.Code == event.Asked {
			var p approval.AskedPayload
			must.Do(t, json.Unmarshal(e.Payload, &p))
			if asked++; p.RequesterReason != rec.Prompt.RequesterReason {
				t.Errorf("journaled: %q", p.RequesterReason)
			}
		}
	}
	if asked != 1 {
		t.Errorf("%d asks", asked)
	}
	a, b := must.Get(w.Evaluate(t.Context(), submissionWithReason("")))(t), must.Get(w.Evaluate(t.Context(), submissionWithReason("OPS-8")))(t)
	if a.ReasonWanted != "Which ticket?" || b.ReasonWanted != "" || a.CallDigest != b.CallDigest || a.CallDigest != rec.CallDigest || a.Verdict.Effect() != policy.Ask {
		t.Errorf("a dry run: %+v and %+v", a, b)
	}
	w.reload("")
	if e := must.Get(w.Evaluate(t.Context(), submissionWithReason("")))(t); e.ReasonWanted != "" || e.Verdict.Effect() != policy.Ask {
		t.Errorf("without the policy: %+v", e)
	}
}

// An approval for one reason does not cover another.
func TestReasonsAreNotMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTicket)
	one, same, other := w.begin(submissionWithReason("OPS-1")), w.begin(submissionWithReason("OPS-1")), w.begin(submissionWithReason("OPS-2"))
	first, second, third := one.asked(), same.asked(), other.asked()
	if first.ID != second.ID || third.ID == first.ID || third.CallDigest != first.CallDigest {
		t.Fatalf("%s and %s are one reason, %s is another", first.ID, second.ID, third.ID)
	}
	w.vote(bob, third, yes)
	if o, err := other.wait(); err != nil || !o.Decision.Allowed || o.Decision.ApprovalID != third.ID {
		t.Errorf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 1)
	one.leave()
	same.leave()
}

func TestReasonIsBoundedAndAFact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.options.Policies = ticket + `@id("why.form") forbid (principal, action == Action::"tool.execute/process.run", resource) when { context.requester_reason != "" && !(context.requester_reason like "OPS-*") };`
	})
	if _, err := w.Call(t.Context(), submissionWithReason(strings.Repeat("é", call.MaxReason+1)), func(call.Event) {}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("too long: %v", err)
	}
	if o, err := w.Call(t.Context(), submissionWithReason("because"), func(call.Event) {}); err != nil || o.Decision.Reason != reason.PolicyDenied {
		t.Errorf("of another form: %+v, %v", o.Decision, err)
	}
	r := w.begin(submissionWithReason("OPS-" + strings.Repeat("é", call.MaxReason-4))) // control
	r.asked()
	r.leave()
}

// A grant covers the call without a question or a reason. A retry of a key is the same call
// only with the same reason.
func TestGrantNeedsNoReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTicket)
	r := w.begin(submissionWithReason("OPS-1"))
	w.vote(bob, r.asked(), approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchExact})
	if _, err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if o, err := w.Call(t.Context(), submissionWithReason(""), func(call.Event) {}); err != nil || !o.Decision.Allowed || o.Decision.GrantID == "" {
		t.Errorf("by the grant: %+v, %v", o.Decision, err)
	}
	plain, why, again := submissionWithReason(""), submissionWithReason("OPS-1"), submissionWithReason("OPS-1")
	if a, b, c := must.Get(plain.Digest())(t), must.Get(why.Digest())(t), must.Get(again.Digest())(t); a == b || b != c {
		t.Error("the digest of a retry does not tell the reason")
	}
}

// A call that an approver edited keeps the reason of its requester, and requires one like the
// original call.
func TestEditKeepsTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol)
	r, silent := w.begin(submissionWithReason("OPS-1")), runCall()
	silent.Input = []byte(`{"argv":["other"]}`)
	quiet := w.begin(silent)
	rec, mute := r.asked(), quiet.asked()
	w.reload(ticket)
	after := must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t)
	if after.Prompt.RequesterReason != "OPS-1" {
		t.Errorf("after the edit: %q", after.Prompt.RequesterReason)
	}
	if _, err := w.edit(bob, mute, `{"argv":["other","-n"]}`); reason.Of(err) != reason.RequestReasonNeeded {
		t.Errorf("an edit without a reason: %v", err)
	}
	r.leave()
	quiet.leave()
}
