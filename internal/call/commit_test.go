package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// unattended permits programs without approval, for tests of the approval of their changes.
func unattended(w *world) {
	twoUsers(w)
	w.options.Policies += waived
}

// gateOf is the answer that a program received at its commit gate.
type gateOf struct {
	ruling tool.CommitRuling
	err    error
}

// wrote returns a tool that requests a commit and stores the ruling in got.
func wrote(change func(*tool.CommitRequest), got *gateOf) func(context.Context, tool.Call) tool.Report {
	return func(ctx context.Context, c tool.Call) tool.Report {
		r := tool.CommitRequest{
			Facts:   tool.CommitFacts{Workspace: "default", Root: gatewaytest.Digest("9"), Added: 1, Bytes: 3},
			Preview: tool.Preview{Diff: "+++ b/made\n+new", Notes: []string{"one file"}},
			Files:   []tool.FileChange{{Workspace: "default", Path: "made", Is: gatewaytest.Digest("8")}},
		}
		if change != nil {
			change(&r)
		}
		got.ruling, got.err = c.Commit(ctx, r)
		report := gatewaytest.Succeeded(`{"exit_code":0}`)
		report.Changes = &tool.Changes{
			State: tool.Discarded, Root: r.Facts.Root, Workspace: "default", Added: 1, ApprovalID: got.ruling.ApprovalID,
			GrantID: got.ruling.GrantID, Reason: got.ruling.Reason,
		}
		if got.ruling.Allowed {
			report.Changes.State = tool.Committed
		}
		return report
	}
}

// protects marks the changes as changes of protected paths.
func protects(paths ...string) func(*tool.CommitRequest) {
	return func(r *tool.CommitRequest) { r.Facts.Protected, r.Facts.Classes = paths, []string{"git"} }
}

// refused verifies that changes were not committed.
func (g *gateOf) refused(t *testing.T, what string, code reason.Code) {
	t.Helper()
	if g.ruling.Allowed || g.err != nil || g.ruling.Reason != string(code) || g.ruling.Message == "" || g.ruling.Remedy == "" {
		t.Errorf("%s: %+v, %v, want %s", what, g.ruling, g.err, code)
	}
}

func TestOrdinaryChangesAreCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(nil, &told)
	r, o, err := w.call(runCall())
	if err != nil || told.err != nil || !told.ruling.Allowed || told.ruling.ApprovalID != "" {
		t.Fatalf("got %+v, %v; %v", told, err, o)
	}
	wantSteps(t, "the client", r.kinds(), []string{"proposed", "decision", "ruling", "result", "attestation"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Evaluated, event.Gated, event.Attested)
	p := last[map[string]json.RawMessage](w, event.Gated)
	if string(p["allowed"]) != "true" || string(p["decision_id"]) != fmt.Sprintf("%q", o.Decision.ID) ||
		!strings.Contains(string(p["files"]), "made") || !strings.Contains(string(p["verdict"]), "commit.ordinary") {
		t.Errorf("journaled %s", p)
	}
	w.checkEvidence(o)
}

// TestProtectedChangesAsk covers the events of protected changes that are approved.
func TestProtectedChangesAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(func(r *tool.CommitRequest) { protects(".git/hooks/pre-commit")(r); r.Facts.ExitCode = 2 }, &told)
	r := w.begin(runCall())
	rec := r.asked()
	if rec.SubjectType != approval.SubjectTool || rec.SubjectID != "commit:default:"+gatewaytest.Digest("9") || rec.Severity != "high" ||
		rec.Subject != `commit:default:[".git/hooks/pre-commit"] by process.run:subject` {
		t.Errorf("asked about %s %s, subject %s, severity %s", rec.SubjectType, rec.SubjectID, rec.Subject, rec.Severity)
	}
	p := rec.Prompt
	if p.Title != "Commit changes to workspace default" || p.Diff != "+++ b/made\n+new" || !strings.Contains(p.Summary, "1 added") ||
		!strings.Contains(strings.Join(p.Notes, "\n"), "Protected paths: .git/hooks/pre-commit") || strings.Count(strings.Join(p.Notes, "\n"), "exit code 2") != 1 || len(p.Why) != 2 || p.LastAllowed {
		t.Errorf("the prompt is %+v", p)
	}
	var arguments struct{ Commit tool.CommitFacts }
	if err := json.Unmarshal(rec.Binding.Arguments, &arguments); err != nil || arguments.Commit.Root != gatewaytest.Digest("9") || rec.Binding.Tool != "process.run" {
		t.Errorf("it binds to %s, %v", rec.Binding.Arguments, err)
	}
	for _, offer := range p.Scopes {
		if offer.Match == approval.MatchTool {
			t.Errorf("a grant for the whole tool is offered: %+v", offer)
		}
	}
	if w.run.Ran(t, 1); slices.Contains(w.codes(0), event.Gated) {
		t.Error("it was ruled on before anybody answered")
	}
	w.vote(bob, rec, yes)
	o, err := r.wait()
	if err != nil || !told.ruling.Allowed || told.ruling.ApprovalID != rec.ID || o.Report.Changes.ApprovalID != rec.ID {
		t.Fatalf("got %+v, %v", told, err)
	}
	wantSteps(t, "the client", r.kinds(), []string{"proposed", "decision", "asked", "resolved", "ruling", "result", "attestation"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Evaluated, event.Asked, event.Voted, event.Answered,
		event.Consumed, event.Gated, event.Attested)
	w.checkEvidence(o)
	if o.Decision.ApprovalID != "" {
		t.Error("the approval of the changes counts for the call")
	}
	// The approval had the scope once.
	again := w.begin(runCall())
	if other := again.asked(); other.ID == rec.ID || other.CallDigest != rec.CallDigest {
		t.Errorf("the second run asks with %s", other.ID)
	}
	again.leave()
	_, _ = again.wait()
	told.refused(t, "the client left", reason.Cancelled)
}

// TestRefusedChanges covers every reason for which changes are not committed.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies string
		act      func(*world, *running, approval.Record)
		code     reason.Code
		state    approval.State
	}{
		"denied": {"", func(w *world, _ *running, rec approval.Record) { w.vote(bob, rec, no) }, reason.ApprovalDenied, approval.Denied},
		"cancelled by the approver": {"", func(w *world, _ *running, rec approval.Record) {
			if _, err := w.Desk.Records.Cancel(w.t.Context(), alice, rec.ID, "no"); err != nil {
				w.t.Error(err)
			}
		}, reason.ApprovalCancelled, approval.Cancelled},
		"the client leaves": {"", func(_ *world, r *running, _ approval.Record) { r.leave() }, reason.Cancelled, approval.Cancelled},
		"frozen": {"", func(w *world, _ *running, _ approval.Record) {
			must.Check(w.t, w.Desk.Freezer.Freeze(w.t.Context(), alice, "stop"))
			w.Router.Freeze()
		}, reason.GatewayFrozen, approval.Cancelled},
		"forbidden meanwhile": {"", func(w *world, _ *running, rec approval.Record) {
			w.reload(waived + `@id("nothing") forbid(principal, action == Action::"workspace.commit", resource) unless { context.approval.approvers >= 9 };`)
			w.vote(bob, rec, yes)
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, unattended)
			var told gateOf
			w.run.Work = wrote(protects(".git/config"), &told)
			r := w.begin(runCall())
			rec := r.asked()
			c.act(w, r, rec)
			if c.code == "" { // the votes are evaluated again, and the call keeps waiting
				if now, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || now.State != approval.Pending {
					t.Errorf("the approval is %s, %v", now.State, err)
				}
				r.leave()
				c.code, c.state = reason.Cancelled, approval.Cancelled
			}
			o, err := r.wait()
			if err != nil || !o.Decision.Allowed {
				t.Fatalf("the call: %+v, %v", o.Decision, err)
			}
			told.refused(t, name, c.code)
			if after, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || after.State != c.state {
				t.Errorf("the approval is %s, %v, want %s", after.State, err, c.state)
			}
			if p := last[record.Gated](w, event.Gated); p.Allowed || p.Reason != c.code {
				t.Errorf("journaled %+v", p)
			}
			w.checkEvidence(o)
		})
	}
}

func TestForbiddenChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended, func(w *world) {
		w.options.Policies += `@id("no-hooks") @remedy("leave hooks alone") forbid(principal, action == Action::"workspace.commit", resource)
when { context.changes.classes.contains("git") };`
	})
	var told gateOf
	w.run.Work = wrote(protects(".git/config"), &told)
	r, o, err := w.call(runCall())
	told.refused(t, "forbidden", reason.CommitRefused)
	if err != nil || told.ruling.Remedy != "leave hooks alone" || slices.Contains(r.kinds(), "asked") || strings.Contains(told.ruling.Message, "no-hooks") {
		t.Errorf("got %+v, %v", told.ruling, err)
	}
	w.checkEvidence(o)
	w.run.Work = wrote(nil, &told)
	if _, _, err := w.call(runCall()); err != nil || !told.ruling.Allowed {
		t.Errorf("the control: %+v, %v", told, err)
	}
}

// TestTooManyProtectedPaths: changes of too many protected paths are refused without a question,
// because approvers could not review them.
func TestTooManyProtectedPaths(t *testing.T) {
	t.Parallel()
	for n, code := range map[int]reason.Code{1000: reason.Cancelled, 1001: reason.CommitRefused} {
		w := newWorld(t, unattended)
		var told gateOf
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf(".git/hooks/%04d", i)
		}
		w.run.Work = wrote(protects(paths...), &told)
		r := w.begin(runCall())
		if code == reason.Cancelled {
			if rec := r.asked(); !strings.HasPrefix(rec.Subject, "commit:default:1000 protected paths, sha256:") {
				t.Errorf("subject %s", rec.Subject)
			}
			r.leave()
		}
		_, _ = r.wait()
		told.refused(t, fmt.Sprint(n, " paths"), code)
		if p := last[struct{ Facts tool.CommitFacts }](w, event.Gated); len(p.Facts.Protected) != 1000 {
			t.Errorf("%d of %d paths are on record", len(p.Facts.Protected), n)
		}
	}
}

// A long list of files is stored as a blob, and the journal contains its digest.
func TestManyFilesAreABlob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	var files []tool.FileChange
	w.run.Work = wrote(func(r *tool.CommitRequest) {
		for i := range 2000 {
			r.Files = append(r.Files, tool.FileChange{Workspace: "default", Path: fmt.Sprintf("src/%d.go", i), Is: gatewaytest.Digest("7")})
		}
		files = r.Files
	}, &told)
	if _, _, err := w.call(runCall()); err != nil || !told.ruling.Allowed {
		t.Fatalf("%+v, %v", told, err)
	}
	p := last[struct {
		Files     []tool.FileChange
		FilesBlob string `json:"files_blob"`
	}](w, event.Gated)
	text, err := canonical.Marshal(files)
	if err != nil || len(p.Files) > 0 || string(w.blob(p.FilesBlob)) != string(text) {
		t.Errorf("journaled %d files and blob %s, %v", len(p.Files), p.FilesBlob, err)
	}
}

// TestUnrecordedChangesAreRefused: changes that cannot be recorded are not committed.
func TestUnrecordedChangesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paths []string
		spoil func(*world)
		hook  func(*world)
	}{
		"policy's word": {nil, func(w *world) { w.ledger.fail(event.Gated) }, nil},
		"before the asking": {[]string{".git/config"}, func(w *world) {
			w.ledger.after = map[event.Code]func(){event.Decided: func() { w.ledger.fail(event.Evaluated) }}
		}, nil},
		"a person's word":    {[]string{".git/config"}, nil, func(w *world) { w.store.fail(errDisk) }},
		"the control":        {nil, nil, nil},
		"the control, asked": {[]string{".git/config"}, nil, func(*world) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, unattended)
			var told gateOf
			w.run.Work = wrote(func(r *tool.CommitRequest) { r.Facts.Protected = c.paths }, &told)
			if c.spoil != nil {
				c.spoil(w)
			}
			r := w.beginWith(runCall(), answered(func() {
				if c.hook != nil {
					c.hook(w)
				}
			}))
			if c.hook != nil {
				w.vote(bob, r.asked(), yes)
			}
			_, _ = r.wait()
			control := strings.HasPrefix(name, "the control")
			if told.ruling.Allowed != control || (reason.Of(told.err) == reason.JournalUnavailable) == control {
				t.Errorf("got %+v, %v", told.ruling, told.err)
			}
		})
	}
}

// TestRevokedBetweenAnswerAndUse: an approval that is revoked before its use is not valid, and
// the record contains the revocation.
func TestRevokedBetweenAnswerAndUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(protects(".git/config"), &told)
	var rec approval.Record
	r := w.beginWith(runCall(), answered(func() {
		if _, err := w.Desk.Records.Revoke(t.Context(), alice, rec.ID, "no"); err != nil {
			t.Error(err)
		}
	}))
	rec = r.asked()
	w.vote(bob, rec, yes)
	must.Get(r.wait())(t)
	told.refused(t, "revoked", reason.ApprovalRevoked)
	if p := last[record.Gated](w, event.Gated); p.Allowed || p.Reason != reason.ApprovalRevoked {
		t.Errorf("journaled %+v", p)
	}
}

// A freeze or the end of the call overrides a recorded approval.
func TestRevocationOverridesRecordedApproval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  func(w *world, end func())
		code reason.Code
	}{
		"a freeze": {func(w *world, _ func()) {
			must.Check(w.t, w.Desk.Freezer.Freeze(w.t.Context(), alice, "stop"))
		}, reason.GatewayFrozen},
		"the end of the call": {func(_ *world, end func()) { end() }, reason.Cancelled},
		"the control":         {func(*world, func()) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, unattended)
			var told gateOf
			w.run.Work = func(ctx context.Context, call tool.Call) tool.Report {
				ctx, end := context.WithCancel(ctx)
				defer end()
				w.ledger.after = map[event.Code]func(){event.Gated: func() { c.act(w, end) }}
				return wrote(nil, &told)(ctx, call)
			}
			if _, _, err := w.call(runCall()); err != nil {
				t.Fatal(err)
			}
			if p := last[record.Gated](w, event.Gated); !p.Allowed {
				t.Fatalf("journaled %+v", p)
			}
			if c.code != "" {
				told.refused(t, name, c.code)
			} else if !told.ruling.Allowed {
				t.Errorf("got %+v", told)
			}
		})
	}
}

// A policy that changes while an approval is pending is evaluated again.
func TestPolicyThatChangesAtTheGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies string
		code     reason.Code
	}{
		"stricter":  {`@id("x") forbid(principal, action == Action::"workspace.commit", resource);`, reason.CommitRefused},
		"more":      {`@id("x") forbid(principal, action == Action::"workspace.commit", resource) unless { context.approval.approvers >= 2 };`, reason.ApprovalRequired},
		"as strict": {`@id("x") forbid(principal, action == Action::"workspace.commit", resource) unless { context.approval.granted };`, ""},
		"waived":    {`@id("x") @waives("approval: test") permit(principal, action == Action::"workspace.commit", resource);`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, unattended, threeUsers)
			var told gateOf
			w.run.Work = wrote(protects(".git/config"), &told)
			r := w.beginWith(runCall(), answered(func() { w.reload(waived + c.policies) }))
			w.vote(bob, r.asked(), yes)
			must.Get(r.wait())(t)
			if c.code == "" {
				if !told.ruling.Allowed || (told.ruling.ApprovalID == "") != (name == "waived") {
					t.Errorf("got %+v", told)
				}
				return
			}
			told.refused(t, name, c.code)
		})
	}
}

// TestUnansweredChanges: after the timeout of an approval without an answer, the changes are
// discarded. The call's own deadline is paused meanwhile.
func TestUnansweredChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, unattended)
		var told gateOf
		w.run.Work = wrote(protects(".git/config"), &told)
		began := time.Now()
		_, o, err := w.call(runCall())
		if err != nil || o.Report.Outcome != tool.Succeeded || time.Since(began) < 10*time.Minute {
			t.Errorf("after %s: %s, %v", time.Since(began), o.Report.Outcome, err)
		}
		told.refused(t, "expired", reason.ApprovalExpired)
	})
}

// TestGrantsForChanges: a grant covers the approved changes. A grant by subject also covers
// other changes of the same paths by the same program. A grant for calls never covers changes.
func TestGrantsForChanges(t *testing.T) {
	t.Parallel()
	bySubject := approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchSubject}
	another := func(r *tool.CommitRequest) {
		protects(".git/config")(r)
		r.Facts.Root = gatewaytest.Digest("6")
	}
	other := protects(".git/hooks/x")
	for name, c := range map[string]struct {
		ballot approval.Ballot
		then   func(*tool.CommitRequest)
		covers bool
	}{
		"the same again":           {forSession, protects(".git/config"), true},
		"others of the path":       {forSession, another, false},
		"others, by subject":       {bySubject, another, true},
		"another path, by subject": {bySubject, other, false},
		"more paths, by subject":   {bySubject, protects(".git/config", ".git/hooks/x"), false},
		"once":                     {yes, protects(".git/config"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, unattended)
			var told gateOf
			w.run.Work = wrote(protects(".git/config"), &told)
			r := w.begin(runCall())
			w.vote(bob, r.asked(), c.ballot)
			if _, err := r.wait(); err != nil || !told.ruling.Allowed {
				t.Fatalf("%+v, %v", told, err)
			}
			w.run.Change(func(p *gatewaytest.Probe) { p.Work = wrote(c.then, &told) })
			if !c.covers {
				w.wantAsked(name, runCall())
				return
			}
			if _, _, err := w.call(runCall()); err != nil || !told.ruling.Allowed || told.ruling.GrantID == "" {
				t.Errorf("%+v, %v", told, err)
			}
		})
	}
}

func TestGrantForAToolCoversNoChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var told gateOf
	w.run.Work = wrote(nil, &told)
	r := w.begin(runCall())
	w.vote(alice, r.asked(), approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchTool})
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	w.run.Change(func(p *gatewaytest.Probe) { p.Work = wrote(protects(".git/config"), &told) })
	again := w.begin(runCall())
	rec := again.asked()
	if !rec.AboutCommit() {
		t.Error("the grant does not cover the call")
	}
	// A grant for the whole tool cannot be created from an approval of changes.
	_, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchTool})
	reasontest.Want(t, "a grant for any changes", err, reason.InvalidInput)
	w.vote(alice, rec, yes)
	if _, err := again.wait(); err != nil || !told.ruling.Allowed {
		t.Errorf("%+v, %v", told, err)
	}
}

// A call with a key keeps waiting after its client disconnects.
func TestChangesWaitForAKeyedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(protects(".git/config"), &told)
	first := w.begin(keyed(runCall()))
	rec := first.asked()
	first.leave()
	_, err := first.wait()
	reasontest.Want(t, "the client that left", err, reason.Cancelled)
	second := w.begin(keyed(runCall()))
	if again := second.asked(); again.ID != rec.ID {
		t.Errorf("it waits for %s", again.ID)
	}
	w.vote(bob, rec, yes)
	if o, err := second.wait(); err != nil || !told.ruling.Allowed || o.Report.Changes.State != tool.Committed {
		t.Errorf("%+v, %v", told, err)
	}
	w.run.Ran(t, 1)
}

// TestStopAtTheGate: if the daemon is killed while a call waits at its commit gate, the call
// has ended. Its record states that no changes were applied, and its approval ends with it.
func TestStopAtTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	var told gateOf
	w.run.Work = wrote(protects(".git/config"), &told)
	r := w.begin(keyed(runCall()))
	rec := r.asked()
	w.ledger.fail(event.Gated, event.Attested)
	w.StopDesk() // the desk has stopped, and no event can be recorded
	_, _ = r.wait()
	if told.ruling.Allowed || told.err == nil {
		t.Errorf("got %+v", told)
	}
	w.start()
	if n, err := call.CloseAmbiguous(t.Context(), w.ledger); n != 1 || err != nil {
		t.Fatalf("%d calls were closed, %v", n, err)
	}
	if p := last[record.Ambiguous](w, event.Ambiguous); !strings.Contains(p.Message, "were not applied") {
		t.Errorf("it says %q", p.Message)
	}
	if now, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || now.State != approval.Cancelled {
		t.Errorf("the approval is %s, %v", now.State, err)
	}
	_, _, err := w.call(keyed(runCall()))
	reasontest.Want(t, "a retry", err, reason.OutcomeUnknown)
	if err == nil || !strings.Contains(err.Error(), "were not applied") {
		t.Errorf("a retry is told %v", err)
	}
	w.run.Ran(t, 1)
}

// TestInterruptedCommitGate: after a crash, the known part of an interrupted commit gate is
// reported.
func TestInterruptedCommitGate(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]struct {
		paths []string
		vote  *approval.Ballot
	}{
		"may have been applied":    {nil, nil},
		"its changes were refused": {[]string{".git/config"}, &no},
	} {
		w := newWorld(t, unattended)
		var told gateOf
		w.run.Work = wrote(func(r *tool.CommitRequest) { r.Facts.Protected = c.paths }, &told)
		w.ledger.fail(event.Attested)
		r := w.begin(runCall())
		if c.vote != nil {
			w.vote(bob, r.asked(), *c.vote)
		}
		_, _ = r.wait()
		w.restart()
		if p := last[record.Ambiguous](w, event.Ambiguous); !strings.Contains(p.Message, says) {
			t.Errorf("it says %q, want %q", p.Message, says)
		}
	}
}

// TestViolationsAreJournaled: an operation that the sandbox denied has a separate event, which
// is durable with the attestation and contains no secrets.
func TestViolationsAreJournaled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	w.run.Work = func(context.Context, tool.Call) tool.Report {
		report := gatewaytest.Succeeded(`{}`)
		report.Violations = []tool.Violation{{
			Syscall: "connect", Arguments: []string{"3"}, Errno: "EPERM", Executable: "/workspace/ghp_0123456789abcdefghijABCDEFGHIJ012345",
		}}
		report.ViolationsMissed = 4
		return report
	}
	if _, _, err := w.call(runCall()); err != nil {
		t.Fatal(err)
	}
	w.wantJournal(3, event.Violated, event.Attested)
	p := last[record.Violated](w, event.Violated)
	if len(p.Violations) != 1 || p.Violations[0].Syscall != "connect" || p.Missed != 4 || strings.Contains(p.Violations[0].Executable, "ghp_") {
		t.Errorf("journaled %+v", p)
	}
	w.run.Work = nil
	before := w.head()
	w.call(runCall())
	if slices.Contains(w.codes(before), event.Violated) {
		t.Error("a run without violations has some")
	}
}

// The changes of a call can be described without its arguments.
func TestDescribedChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended)
	s := runCall()
	s.Input = nil
	r, grants, err := w.Describe(t.Context(), call.Description{
		Submission: s, Facts: []byte(`{"workspace":"default","changes":{"protected":["Makefile"],"classes":["runner"]}}`),
	})
	if err != nil || r.Commit == nil || grants != nil {
		t.Fatalf("%+v, %v, %v", r, grants, err)
	}
	if v := w.engine.Current().Evaluate(r, nil); v.Effect() != policy.Ask {
		t.Errorf("the verdict is %s", v.Effect())
	}
	_, _, err = w.Describe(t.Context(), call.Description{Submission: s, Facts: []byte(`{"risk":3}`)})
	reasontest.Want(t, "a call without its arguments", err, reason.InvalidInput)
}
