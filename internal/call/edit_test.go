package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
)

var carol = gatewaytest.Person(access.User("carol"), access.RoleOperator)

// withCarol adds the operators bob and carol.
func withCarol(w *world) {
	w.options.Members = append(w.options.Members, member("bob"), member("carol"))
}

func (w *world) edit(who access.Caller, rec approval.Record, input string) (approval.Record, error) {
	return w.Pipeline.Edit(w.t.Context(), who, call.Change{
		ApprovalID: rec.ID, Version: rec.Version, ShownDigest: rec.CallDigest, Input: []byte(input), Reason: "not everything",
	})
}

// receives records the inputs with which a tool runs.
func receives(p *gatewaytest.Probe) *[]string {
	var got []string
	p.Work = func(_ context.Context, c tool.Call) tool.Report {
		got = append(got, string(c.Proposal.Input))
		return gatewaytest.Succeeded(`{"ok":true}`)
	}
	return &got
}

// The edited call is the one that runs, that is attested and that the requester receives. The
// journal contains both calls.
func TestEditedCallRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol)
	ran := receives(w.run)
	r := w.begin(runCall())
	rec := r.asked()
	w.vote(carol, rec, approval.Ballot{Allow: true}) // control: one approval is enough
	if o, err := r.wait(); err != nil || !o.Decision.Allowed || o.Report.Edited != nil || (*ran)[0] != `{"argv":["make"]}` {
		t.Fatalf("as proposed: %+v, %v, %v", o, err, *ran)
	}
	from := w.journal(0)
	r = w.begin(runCall())
	rec = r.asked()
	after := must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t)
	if after.CallDigest == rec.CallDigest || after.ID != rec.ID || after.Version != rec.Version+1 || len(after.Edits) != 1 || after.State != approval.Pending {
		t.Fatalf("after the edit: %+v", after)
	}
	if _, err := w.Desk.Votes.Decide(t.Context(), carol, rec.ID, approval.Ballot{Allow: true, ShownDigest: rec.CallDigest}); reason.Of(err) != reason.DigestMismatch {
		t.Errorf("a yes to the call before: %v", err)
	}
	w.vote(carol, after, yes)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || o.Decision.CallDigest != after.CallDigest {
		t.Fatalf("edited: %+v, %v", o.Decision, err)
	}
	if (*ran)[1] != `{"argv":["make","-n"]}` {
		t.Errorf("it ran with %s", (*ran)[1])
	}
	e := o.Report.Edited
	if e == nil || len(e.By) != 1 || e.By[0] != "user:bob" || e.Proposed != rec.CallDigest || len(e.Changes) != 1 || e.Changes[0] != (tool.Difference{Field: "/argv", Was: `["make"]`, Is: `["make","-n"]`}) {
		t.Errorf("told: %+v", e)
	}
	statement := must.Get(attest.Read(o.Attestation.Envelope.JSON))(t)
	if p := statement.Predicate; p.Invocation.CallDigest != after.CallDigest || p.Inputs.ArgumentsDigest != canonical.Digest([]byte(`{"argv":["make","-n"]}`)) {
		t.Errorf("attested: %+v", p)
	}
	var both []string
	for _, j := range w.journal(from[len(from)-1].Seq) {
		switch j.Code {
		case event.Proposed, event.Edited:
			var p record.Edited
			must.Do(t, json.Unmarshal(j.Payload, &p))
			both = append(both, p.ArgumentsDigest)
		case event.Attested:
			if strings.Contains(string(j.Payload), `"changes"`) {
				t.Errorf("the journal has the values that differ: %s", j.Payload)
			}
		}
	}
	if len(both) != 2 || both[0] == both[1] {
		t.Errorf("arguments in the journal: %v", both)
	}
}

// TestReplayOfAnEdit: a retry of an edited call is decided by the arguments that ran. Control:
// a policy that forbids only other arguments, like the ones that the client sent.
func TestReplayOfAnEdit(t *testing.T) {
	t.Parallel()
	forbid := `@id("no") @reason("no") forbid(principal, action == Action::"tool.execute/process.run", resource) when { %scontext.args.argv.contains("-n") };`
	for not, denied := range map[string]bool{"": true, "!": false} {
		w := newWorld(t, withCarol)
		receives(w.run)
		r := w.begin(keyed(runCall()))
		w.vote(carol, must.Get(w.edit(bob, r.asked(), `{"argv":["make","-n"]}`))(t), yes)
		if o, err := r.wait(); err != nil || o.Report.Edited == nil {
			t.Fatalf("%+v, %v", o.Report, err)
		}
		w.reload(fmt.Sprintf(forbid, not))
		if _, o, err := w.call(keyed(runCall())); (reason.Of(err) == reason.PolicyDenied) != denied || (len(o.Report.Result) > 0) == denied {
			t.Errorf("forbidden where %scontains(-n): %+v, %v", not, o.Report, err)
		}
	}
}

// The editor of a call counts as a requester of it.
func TestEditorIsCoRequester(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol)
	r := w.begin(runCall())
	rec := r.asked()
	if err := w.Desk.Votes.MayVote(t.Context(), bob, rec); err != nil { // control: bob may decide before
		t.Fatal(err)
	}
	// The displayed digest must be the pending one, whatever version the editor names.
	shown := rec
	shown.CallDigest = "sha256:" + strings.Repeat("0", 64)
	if _, err := w.edit(bob, shown, `{"argv":["make","-n"]}`); reason.Of(err) != reason.DigestMismatch {
		t.Errorf("an edit of another call: %v", err)
	}
	after := must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t)
	if _, err := w.Desk.Votes.Decide(t.Context(), bob, after.ID, approval.Ballot{Allow: true, ShownDigest: after.CallDigest}); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("the editor's own yes: %v", err)
	}
	again := must.Get(w.edit(bob, after, `{"argv":["make","-k"]}`))(t) // but bob may edit again
	if _, err := w.Desk.Votes.Decide(t.Context(), carol, again.ID, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: 3600e9, ShownDigest: again.CallDigest}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a yes that stands: %v", err)
	}
	for _, o := range again.Prompt.Scopes {
		if o.Scope != approval.Once {
			t.Errorf("on offer: %+v", o)
		}
	}
	w.vote(carol, again, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed || o.Report.Edited.Changes[0].Is != `["make","-k"]` {
		t.Errorf("%+v, %v", o, err)
	}
}

// An edit removes earlier votes.
func TestEditDropsVotes(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string]bool{"edited": true, "not edited": false} {
		w := newWorld(t, withCarol, func(w *world) {
			w.options.Members = append(w.options.Members, member("dave"))
			w.options.Policies = `@id("two") forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.approvers >= 2 };`
		})
		r := w.begin(runCall())
		rec := r.asked()
		rec = w.vote(carol, rec, yes)
		if edits {
			rec = must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t)
			if len(rec.Votes) != 0 {
				t.Errorf("votes after the edit: %v", rec.Votes)
			}
		}
		after := w.vote(gatewaytest.Person(access.User("dave"), access.RoleOperator), rec, yes)
		if (after.State == approval.Pending) != edits {
			t.Errorf("%s: the second vote leaves %s", name, after.State)
		}
		r.leave()
		_, _ = r.wait()
	}
}

// An edit that policy denies to its editor or its requester has no effect.
func TestEditIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol, func(w *world) {
		w.options.Policies = `
@id("not-bob") forbid(principal == User::"bob", action == Action::"tool.execute/process.run", resource);
@id("no-rm") forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.args.argv.contains("rm") };`
	})
	r := w.begin(runCall())
	rec := r.asked()
	for name, c := range map[string]struct {
		who   access.Caller
		input string
		want  reason.Code
		says  string
	}{
		"denied to the editor":    {bob, `{"argv":["make","-n"]}`, reason.PolicyDenied, "user:bob"},
		"denied to all":           {carol, `{"argv":["rm"]}`, reason.PolicyDenied, "the edited call"},
		"not what the tool takes": {carol, `{"argv":"make"}`, reason.InvalidInput, ""},
		"the same":                {carol, `{ "argv": ["make"] }`, reason.InvalidInput, "identical to the waiting call"},
		"no JSON":                 {carol, `{`, reason.InvalidInput, ""},
		"no decider":              {gatewaytest.Person(access.User("nobody"), access.RoleOperator), `{"argv":["make","-n"]}`, reason.PermissionDenied, ""},
		"the requester":           {alice, `{"argv":["make","-n"]}`, reason.PermissionDenied, ""},
		"an agent":                {agent, `{"argv":["make","-n"]}`, reason.PermissionDenied, "only users"},
	} {
		if _, err := w.edit(c.who, rec, c.input); reason.Of(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, surface := range []access.Surface{"slack", access.SurfaceWebhook, access.SurfaceInClient} {
		from := carol
		from.Surface = surface
		if _, err := w.edit(from, rec, `{"argv":["make","-n"]}`); reason.Of(err) != reason.PermissionDenied {
			t.Errorf("from %s: %v", surface, err)
		}
	}
	stale := rec
	stale.Version++
	if _, err := w.edit(carol, stale, `{"argv":["make","-n"]}`); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("another version: %v", err)
	}
	if now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t); now.CallDigest != rec.CallDigest || now.Version != rec.Version {
		t.Errorf("changed by what was refused: %+v", now)
	}
	must.Get(w.edit(carol, rec, `{"argv":["make","-n"]}`))(t) // control
	r.leave()
	_, _ = r.wait()
}

// TestConflictOfAnEdit: an edit that policy denies is denied before file content is compared.
// An edit that policy permits returns the conflict, with the detail for editors who may read
// the file.
func TestConflictOfAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol, withPolicies(`
@id("not-bob") forbid(principal == User::"bob", action == Action::"tool.execute/process.run", resource);
@id("no-carol") forbid(principal == User::"carol", action == Action::"tool.execute/fs.read", resource) when { context has path && context.path == "secret" };`))
	r := w.begin(runCall())
	rec := r.asked()
	for name, c := range map[string]struct {
		who     access.Caller
		path    string
		want    reason.Code
		details bool
	}{
		"denied, a conflict":               {bob, "plain", reason.PolicyDenied, false},
		"a conflict in a secret file":      {carol, "secret", reason.PatchConflict, false},
		"a conflict in a file to read":     {carol, "plain", reason.PatchConflict, true},
		"the control: denied, no conflict": {bob, "", reason.PolicyDenied, false},
	} {
		w.run.Change(func(p *gatewaytest.Probe) {
			if p.PlanErr = nil; c.path == "" {
				return
			}
			plan := p.Found
			plan.Contents = []tool.FileAccess{{Tool: "fs.read", Input: []byte(`{"path":"` + c.path + `"}`), Facts: tool.Facts{
				Workspace: "default", Path: c.path, SandboxTier: "builtin", SandboxLevel: "none",
			}}}
			p.PlanErr = &tool.RestrictedError{Plan: plan, Detail: reason.Errorf(reason.PatchConflict, "line 3 is canary")}
		})
		if _, err := w.edit(c.who, rec, `{"argv":["make","-n"]}`); reason.Of(err) != c.want || strings.Contains(err.Error(), "canary") != c.details {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.leave()
	_, _ = r.wait()
}

// The policy about the editor applies until the call runs.
func TestEditorLosesTheRight(t *testing.T) {
	t.Parallel()
	for name, forbid := range map[string]string{"taken": `@id("not-bob") forbid(principal == User::"bob", action == Action::"tool.execute/process.run", resource);`, "kept": ""} {
		w := newWorld(t, withCarol)
		r := w.begin(runCall())
		after := must.Get(w.edit(bob, r.asked(), `{"argv":["make","-n"]}`))(t)
		w.reload(forbid)
		rec := w.vote(carol, after, yes)
		if allowed := rec.State == approval.Allowed; allowed != (forbid == "") {
			t.Errorf("%s: %s, %s", name, rec.State, rec.Missing)
		}
		r.leave()
		_, _ = r.wait()
	}
}

// An edit cannot move or change secrets.
func TestEditKeepsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol, func(w *world) {
		w.options.Policies = `@id("ask") forbid(principal, action == Action::"tool.execute/vault.put", resource) unless { context.approval.granted };`
	})
	ran := receives(w.secret)
	call := runCall()
	call.Tool, call.Input = "vault.put", []byte(`{"header":"palyra-sec-github","name":"a","value":"s3cret"}`)
	r := w.begin(call)
	rec := r.asked()
	if strings.Contains(string(rec.Prompt.Arguments), "s3cret") {
		t.Fatal("shown")
	}
	for name, input := range map[string]string{
		"a value":                 `{"name":"a","value":"mine","header":"palyra-sec-github"}`,
		"the redaction elsewhere": `{"name":"[redacted]","value":"[redacted]","header":"palyra-sec-github"}`,
		"another placeholder":     `{"name":"a","value":"[redacted]","header":"palyra-sec-other"}`,
		"a placeholder elsewhere": `{"name":"palyra-sec-github","value":"[redacted]"}`,
		"a value for one":         `{"name":"a","value":"[redacted]","header":"plain"}`,
		"a secret of their own":   `{"name":"a","value":"[redacted]","header":"palyra-sec-github","nested":{"token":"x"}}`,
	} {
		if _, err := w.edit(bob, rec, input); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	after := must.Get(w.edit(bob, rec, `{"name":"b","value":"[redacted]","header":"palyra-sec-github"}`))(t)
	w.vote(carol, after, yes)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || (*ran)[0] != `{"header":"palyra-sec-github","name":"b","value":"s3cret"}` {
		t.Errorf("%+v, %v, %v", o.Decision, err, *ran)
	}
	for _, j := range w.journal(0) {
		if strings.Contains(string(j.Payload), "s3cret") {
			t.Errorf("in the journal: %s", j.Payload)
		}
	}
}

// A call whose client cannot receive other arguments cannot be edited.
func TestNoEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCarol)
	call := runCall()
	call.NoEdit = "its hook takes a yes or a no"
	r := w.begin(call)
	rec := r.asked()
	if _, err := w.edit(bob, rec, `{"argv":["make","-n"]}`); reason.Of(err) != reason.InvalidInput || !strings.Contains(err.Error(), "its hook takes") {
		t.Errorf("edit: %v", err)
	}
	r.leave()
	_, _ = r.wait()
	if _, err := w.edit(bob, rec, `{"argv":["make","-n"]}`); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("after the call has gone: %v", err)
	}
}

// A call is in its original or its edited version after a crash, and does not run by itself.
func TestEditAcrossRestart(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"before it is durable": true, "after": false} {
		w := newWorld(t, withCarol)
		r := w.begin(runCall())
		rec := r.asked()
		if fails {
			w.store.fail(errDisk)
		}
		after, err := w.edit(bob, rec, `{"argv":["make","-n"]}`)
		if (err != nil) != fails {
			t.Fatalf("%s: %v", name, err)
		}
		want := after.CallDigest
		if fails {
			want = rec.CallDigest
			w.store.fail(nil)
		}
		w.restart()
		_, _ = r.wait()
		now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t)
		if now.CallDigest != want || now.State != approval.Pending || (len(now.Edits) == 1) == fails || must.Get(now.Binding.Digest())(t) != want {
			t.Errorf("%s: %s, %+v", name, now.State, now.Edits)
		}
		if err := w.Desk.Votes.MayVote(t.Context(), bob, now); (err == nil) != fails {
			t.Errorf("%s: the editor's yes: %v", name, err)
		}
	}
}

// Approvers of an edited call must be independent of its requester and of its editor.
func TestEditNeedsIndependence(t *testing.T) {
	t.Parallel()
	people := []string{"carol", "dave", "erin", "frank"}
	for name, c := range map[string]struct {
		edits bool
		// yes are the approvers in order; enough is the number of approvals that suffice.
		yes    []string
		enough int
	}{
		"as proposed, the editor's own count":     {false, []string{"carol", "frank"}, 2},
		"as proposed, the requester's own do not": {false, []string{"dave", "erin", "frank"}, 3},
		"edited, the editor's own do not":         {true, []string{"carol", "erin", "frank"}, 3},
		"edited, nor the requester's own":         {true, []string{"dave", "erin", "frank"}, 3},
		"edited, neither makes up for the other":  {true, []string{"carol", "dave", "erin", "frank"}, 4},
	} {
		w := newWorld(t, func(w *world) {
			w.options.Members = []access.Member{member("bob")}
			for _, p := range people {
				w.options.Members = append(w.options.Members, member(p))
			}
			by := func(maker string) []access.Principal { return []access.Principal{access.User(maker)} }
			w.options.Provenance = provenance.History{
				{Member: access.User("carol"), Kind: provenance.Made, By: by("bob")},
				{Member: access.User("dave"), Kind: provenance.Made, By: by("alice")},
			}
			w.options.Policies = `@id("two") forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.approvers >= 2 };`
		})
		r := w.begin(runCall())
		rec := r.asked()
		if c.edits {
			rec = must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t)
		}
		for n, who := range c.yes {
			rec = w.vote(gatewaytest.Person(access.User(who), access.RoleOperator), rec, yes)
			if done := rec.State == approval.Allowed; done != (n+1 == c.enough) {
				t.Errorf("%s: after the yes of %s it is %s: %s", name, who, rec.State, rec.Missing)
			}
		}
		r.leave()
		_, _ = r.wait()
	}
}

// Either a concurrent edit or the approval succeeds, and the version that runs is the approved
// one. The race detector verifies that the edit may read the data of the waiting call.
func TestEditRacesVote(t *testing.T) {
	t.Parallel()
	edited, allowed := 0, 0
	for n := range 16 {
		w := newWorld(t, withCarol)
		ran := receives(w.run)
		r := w.begin(runCall())
		rec := r.asked()
		var both sync.WaitGroup
		var after approval.Record
		var editErr, voteErr error
		begin := make(chan struct{})
		both.Go(func() { <-begin; after, editErr = w.edit(bob, rec, `{"argv":["make","-n"]}`) })
		both.Go(func() {
			<-begin
			for range n * n { // each round a little later than the previous one
				must.Get(w.Desk.Records.Get(context.Background(), rec.ID))(t)
			}
			_, voteErr = w.Desk.Votes.Decide(context.Background(), carol, rec.ID, approval.Ballot{Allow: true, ShownDigest: rec.CallDigest})
		})
		close(begin)
		both.Wait()
		want := `{"argv":["make"]}`
		switch {
		case editErr == nil && (reason.Of(voteErr) == reason.DigestMismatch || reason.Of(voteErr) == reason.ApprovalConflict):
			edited++
			want = `{"argv":["make","-n"]}`
			w.vote(carol, after, yes)
		case voteErr == nil && editErr != nil: // the call may have ended by then
			allowed++
		default:
			t.Fatalf("the edit: %v; the yes: %v", editErr, voteErr)
		}
		o, err := r.wait()
		if err != nil || !o.Decision.Allowed || len(*ran) != 1 || (*ran)[0] != want || (o.Report.Edited != nil) != (editErr == nil) {
			t.Fatalf("%+v, %v: ran with %v, want %s", o.Decision, err, *ran, want)
		}
	}
	t.Logf("the edit won %d times, the yes %d times", edited, allowed)
}
