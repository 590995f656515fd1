package approval_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

// mintGrant makes alice approve an ask with a standing scope. It consumes the approval and
// returns the grant's id.
func mintGrant(t *testing.T, d *approvaltest.Desk, b approval.Ballot, changes ...func(*approval.Ask)) string {
	t.Helper()
	a := allowed(t, d, b, changes...)
	must.Do(t, d.Requests.Consume(t.Context(), a))
	rec, err := d.Records.Get(t.Context(), a.ApprovalID())
	if err != nil || rec.GrantID == "" {
		t.Fatalf("no grant was minted: %+v, %v", rec, err)
	}
	return rec.GrantID
}

func found(t *testing.T, d *approvaltest.Desk, ask approval.Ask) bool {
	t.Helper()
	list := must.Get(d.Grants.Find(t.Context(), ask.Query()))(t)
	return len(list) == 1
}

func otherArguments(a *approval.Ask) {
	a.Plan.Binding.Argv = []string{"make", "install"}
	a.Plan.Binding.Arguments = []byte(`{"argv":["make","install"]}`)
}

func otherSession(a *approval.Ask) { a.Proposal.Session = "s2" }

func TestMatchers(t *testing.T) {
	t.Parallel()
	otherSubject := func(a *approval.Ask) { otherArguments(a); a.Plan.Subject = "process.run:/usr/bin/git@default" }
	otherTool := func(a *approval.Ask) {
		otherSubject(a)
		a.Proposal.Tool.Name, a.Plan.Binding.Tool = "fs.write", "fs.write"
	}
	otherAgent := func(a *approval.Ask) {
		a.Proposal.Caller.Principal, a.Plan.Binding.Principal = access.Agent("other"), "agent:other"
	}
	otherDefinition := func(a *approval.Ask) { a.Plan.Binding.ToolDefinitionDigest = "sha256:changed" }
	type asks map[string]struct {
		change func(*approval.Ask)
		want   bool
	}
	same := func(*approval.Ask) {}
	for match, list := range map[approval.Match]asks{
		approval.MatchExact:   {"same": {same, true}, "arguments": {otherArguments, false}, "agent": {otherAgent, false}},
		approval.MatchSubject: {"same": {same, true}, "arguments": {otherArguments, true}, "subject": {otherSubject, false}, "agent": {otherAgent, false}, "definition": {otherDefinition, false}},
		approval.MatchTool:    {"same": {same, true}, "subject": {otherSubject, true}, "tool": {otherTool, false}, "agent": {otherAgent, false}, "definition": {otherDefinition, false}},
	} {
		t.Run(string(match), func(t *testing.T) {
			d := approvaltest.NewDesk(t)
			d.Judge.Set(func(j *approvaltest.Judge) { j.Broad = map[access.Principal]bool{alice.Principal: true} })
			id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: match})
			for name, c := range list {
				ask := approvaltest.Ask(t, c.change)
				if got := found(t, d, ask); got != c.want {
					t.Errorf("other %s: found %v, want %v", name, got, c.want)
				}
				a, err := d.Grants.Answer(t.Context(), id, ask)
				if a.Allowed() != c.want {
					t.Errorf("other %s: answer %v, %v", name, a.Kind(), err)
				}
				if !c.want {
					reasontest.Want(t, "the error", err, reason.BindingMismatch)
				}
			}
		})
	}
}

func TestMismatchNamesFields(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	_, err := d.Grants.Answer(t.Context(), id, approvaltest.Ask(t, otherArguments))
	var e *reason.Error
	if !errors.As(err, &e) || e.Fields["argv"] != `["make","test"] -> ["make","install"]` || e.Fields["cwd"] != "" {
		t.Errorf("mismatch %v with fields %v", err, e)
	}
}

func TestSessionGrantStaysInItsSession(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	if !found(t, d, approvaltest.Ask(t)) || found(t, d, approvaltest.Ask(t, otherSession)) {
		t.Error("a session grant does not hold in its session, or holds in another")
	}
	// Control: a timeboxed grant applies in both sessions.
	d = approvaltest.NewDesk(t)
	mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})
	if !found(t, d, approvaltest.Ask(t)) || !found(t, d, approvaltest.Ask(t, otherSession)) {
		t.Error("a timeboxed grant does not hold in both sessions")
	}
}

func TestGrantExpires(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})
		answer := must.Get(d.Grants.Answer(t.Context(), id, approvaltest.Ask(t)))(t)
		time.Sleep(59 * time.Minute)
		if !found(t, d, approvaltest.Ask(t)) {
			t.Fatal("the grant ended early")
		}
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if found(t, d, approvaltest.Ask(t)) {
			t.Error("the grant outlived its time")
		}
		reasontest.Want(t, "the error", d.Requests.Consume(t.Context(), answer), reason.ApprovalExpired)
		g, err := d.Grants.Get(t.Context(), id)
		if err != nil || !g.EndedAt.Equal(g.ExpiresAt) || count(d.Store, event.GrantEnded) != 1 {
			t.Errorf("grant %+v, %v", g, err)
		}
	})
}

func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDeskOn(t, approvaltest.NewStore(t), approval.Limits{SessionIdle: time.Hour})
		id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
		for range 5 { // activity extends it
			time.Sleep(45 * time.Minute)
			if !found(t, d, approvaltest.Ask(t)) {
				t.Fatal("an active session ended")
			}
		}
		time.Sleep(time.Hour + time.Millisecond)
		synctest.Wait()
		g, err := d.Grants.Get(t.Context(), id)
		if err != nil || g.EndNote != "its session was idle" || found(t, d, approvaltest.Ask(t)) {
			t.Errorf("grant %+v, %v", g, err)
		}
	})
}

func TestNarrowestVoteDefinesTheGrant(t *testing.T) {
	t.Parallel()
	standing := approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: 24 * time.Hour, Match: approval.MatchSubject}
	for name, c := range map[string]struct {
		second approval.Ballot
		minted bool
		want   approval.Grant
	}{
		"once":              {yes, false, approval.Grant{}},
		"session":           {approval.Ballot{Allow: true, Scope: approval.Session}, true, approval.Grant{Scope: approval.Session, Match: approval.MatchExact}},
		"shorter":           {approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchSubject}, true, approval.Grant{Scope: approval.Timeboxed, Match: approval.MatchSubject}},
		"shorter and exact": {approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour}, true, approval.Grant{Scope: approval.Timeboxed, Match: approval.MatchExact}},
	} {
		t.Run(name, func(t *testing.T) {
			d := approvaltest.NewDesk(t)
			d.Judge.Set(func(j *approvaltest.Judge) { j.Need = 2 })
			_, rec := waiting(t, d)
			decide(t, d, alice, rec.ID, standing)
			rec = decide(t, d, bob, rec.ID, c.second)
			if (rec.GrantID != "") != c.minted {
				t.Fatalf("grant %q", rec.GrantID)
			}
			if !c.minted {
				return
			}
			g, err := d.Grants.Get(t.Context(), rec.GrantID)
			if err != nil || g.Scope != c.want.Scope || g.Match != c.want.Match || g.ExpiresAt.Sub(g.CreatedAt) > 8*time.Hour || len(g.MintedBy) != 2 {
				t.Errorf("grant %+v, %v", g, err)
			}
		})
	}
}

func TestBroadGrantNeedsPermission(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	d.Judge.Set(func(j *approvaltest.Judge) { j.Broad = map[access.Principal]bool{bob.Principal: true} })
	broad := approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchTool}
	_, rec := waiting(t, d)
	_, err := d.Votes.Decide(t.Context(), alice, rec.ID, broad)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	decide(t, d, bob, rec.ID, broad) // control: with the permission, it succeeds
}

func TestUsesAreCounted(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	for range 3 {
		a, err := d.Grants.Answer(t.Context(), id, approvaltest.Ask(t))
		if err != nil || a.Kind() != approval.ByGrant || a.GrantID() != id || a.ApprovalID() == "" {
			t.Fatalf("answer %v, %v", a.Kind(), err)
		}
		must.Do(t, d.Requests.Consume(t.Context(), a))
	}
	g, err := d.Grants.Get(t.Context(), id)
	if err != nil || g.Uses != 3 || g.LastUsedAt.IsZero() || count(d.Store, event.GrantUsed) != 3 {
		t.Errorf("grant %+v, %v", g, err)
	}
}

// A revocation stops a decided call that is still queued.
func TestRevokeBeatsQueuedDispatch(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	a, err := d.Grants.Answer(t.Context(), id, approvaltest.Ask(t))
	must.Do(t, err)
	must.Do(t, d.Requests.Consume(t.Context(), a))
	if err := d.Requests.Recheck(t.Context(), a); err != nil {
		t.Fatalf("control: before the revoke: %v", err)
	}
	must.Get(d.Grants.Revoke(t.Context(), bob, id, "stop"))(t)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), a), reason.ApprovalRevoked)
	_, err = d.Grants.Revoke(t.Context(), bob, id, "again")
	reasontest.Want(t, "the error", err, reason.ApprovalConflict)
}

func TestWhoMayRevokeGrant(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	stranger := approvaltest.Caller("x")
	stranger.Principal = access.Agent("stranger")
	_, err := d.Grants.Revoke(t.Context(), stranger, id, "")
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	self := approvaltest.Caller("x")
	self.Principal = access.Agent("builder")
	if _, err := d.Grants.Revoke(t.Context(), self, id, ""); err != nil {
		t.Errorf("an agent may give up its own grant: %v", err)
	}
}

func TestEndSession(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	boxed := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})
	p, pending := waiting(t, d, otherArguments)
	unused := allowed(t, d, yes, func(a *approval.Ask) { a.Plan.Binding.Cwd = "default:sub" })
	_, elsewhere := waiting(t, d, otherSession)
	must.Do(t, d.EndSession(t.Context(), "s1"))
	g, _ := d.Grants.Get(t.Context(), id)
	kept, _ := d.Grants.Get(t.Context(), boxed)
	if g.EndNote != "the session ended" || !kept.EndedAt.IsZero() {
		t.Errorf("session grant %+v, timeboxed %+v", g, kept)
	}
	wantState(t, d.Desk, pending.ID, approval.Cancelled)
	wantState(t, d.Desk, unused.ApprovalID(), approval.Expired)
	wantState(t, d.Desk, elsewhere.ID, approval.Pending)
	if out := <-p.Done; out.Answer.Reason() != reason.ApprovalCancelled {
		t.Errorf("the waiting call got %v", out.Answer.Reason())
	}
}

// Each use of a grant is journaled with its call.
func TestGrantUseNamesItsCall(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	ask := approvaltest.Ask(t)
	a := must.Get(d.Grants.Answer(t.Context(), id, ask))(t)
	must.Do(t, d.Requests.Consume(t.Context(), a))
	for _, e := range d.Store.Events() {
		if e.Code != event.GrantUsed {
			continue
		}
		var used approval.GrantUsedPayload
		if err := json.Unmarshal(e.Payload, &used); err != nil || used.ProposalID != ask.Proposal.ID || used.Uses != 1 {
			t.Errorf("payload %s, %v; want proposal %s", e.Payload, err, ask.Proposal.ID)
		}
		return
	}
	t.Error("the use was not journaled")
}
