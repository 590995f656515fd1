package dualcontrol_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/evidence/journal"
)

// book is a journal in memory.
type book struct {
	events []journal.Event
	fail   error
}

func (b *book) Record(_ context.Context, code event.Code, actor, subject string, payload any) error {
	if b.fail != nil {
		return b.fail
	}
	text, err := json.Marshal(payload)
	b.events = append(b.events, journal.Event{Code: code, Actor: actor, Subject: subject, Payload: text, At: policytest.Now})
	return err
}

func (b *book) List(_ context.Context, f journal.Filter) (list []journal.Event, err error) {
	for _, e := range b.events {
		if string(e.Code) == f.Code && !e.At.Before(f.Since) {
			list = append(list, e)
		}
	}
	return list, nil
}

// changing is a gate with a counter of the applied changes, and the plan of the next change.
type changing struct {
	*world
	gate  *dualcontrol.Gate
	book  *book
	made  int
	fails error
	roles string
	plan  dualcontrol.Plan
}

func newChanging(t *testing.T, policies string, options ...func(*dualcontrol.Config)) *changing {
	t.Helper()
	c := &changing{world: newWorld(t, policies), book: &book{}, roles: "admin"}
	cfg := dualcontrol.Config{Requests: c.desk.Requests, Records: c.desk.Records, People: c.people(), Journal: c.book}
	for _, f := range options {
		f(&cfg)
	}
	c.gate = dualcontrol.New(cfg)
	c.plan = dualcontrol.Plan{Kind: change.UpdateMember, Needs: access.PermAccessWrite}
	return c
}

// change requests the change that c.plan and c.roles describe, as a member, and waits.
func (c *changing) change(by string) (dualcontrol.Outcome, error) {
	return c.request(c.t.Context(), by, true)
}

func (c *changing) request(ctx context.Context, by string, wait bool) (dualcontrol.Outcome, error) {
	return c.gate.Change(ctx, approvaltest.Caller(by), wait, func(context.Context) (*dualcontrol.Plan, error) {
		p := c.plan
		p.Question.ID, p.Question.Title, p.Question.Summary = "member.update:user:dan", "Change dan", "Change dan."
		p.Question.Details = map[string]string{"roles": c.roles}
		p.Make = func(context.Context) (any, error) { c.made++; return c.made, c.fails }
		return &p, nil
	})
}

type word struct {
	dualcontrol.Outcome
	err error
}

// begin requests the change, and returns the id of the question once it waits.
func (c *changing) begin(by string) (id string, done chan word) {
	c.t.Helper()
	done = make(chan word, 1)
	watched, stop := context.WithCancel(c.t.Context())
	defer stop()
	go func() {
		w, err := c.change(by)
		done <- word{w, err}
		stop()
	}()
	_ = c.desk.Records.Watch(watched, 0, nil, func(r approval.Record) error {
		if r.State == "pending" && r.RequestedBy == access.User(by) {
			id = r.ID
			stop()
		}
		return nil
	})
	if id == "" {
		c.t.Fatalf("no question was asked: %v", (<-done).err)
	}
	return id, done
}

func made(member string, by ...string) provenance.Act {
	act := provenance.Act{Member: access.User(member), Kind: provenance.Made}
	for _, name := range by {
		act.By = append(act.By, access.User(name))
	}
	return act
}

// Dual control is on if two people could approve each other's changes. Otherwise the state
// contains the reason.
func TestDualControl(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*changing)
		off     bool
		on      bool
		why     string
	}{
		"three people":         {on: true, why: "user:ann, user:bob, user:cyd"},
		"switched off":         {off: true, why: "dual_control = false"},
		"one owner, one admin": {prepare: func(c *changing) { c.put("bob", true, access.RoleOwner) }, on: true, why: "user:ann, user:cyd"},
		"one owner":            {prepare: func(c *changing) { c.put("bob", true, access.RoleOwner); c.put("cyd", false, access.RoleOperator) }, why: "user:bob is disabled"},
		"one made them all":    {prepare: func(c *changing) { c.history = provenance.History{made("bob", "ann"), made("cyd", "ann")} }, why: "palyrad members confirm"},
		"one made one of them": {prepare: func(c *changing) { c.history = provenance.History{made("bob", "ann")} }, on: true, why: "user:bob"},
		"a third made all": {prepare: func(c *changing) {
			c.history = provenance.History{made("ann", "zed"), made("bob", "zed"), made("cyd", "zed")}
		}, why: "independent"},
		"without their devices": {prepare: func(c *changing) { c.registry.Reach(map[access.Principal]bool{access.User("ann"): true}) }, why: "user:cyd has no device"},
		"with two of the devices": {prepare: func(c *changing) {
			c.registry.Reach(map[access.Principal]bool{access.User("ann"): true, access.User("cyd"): true})
		}, on: true, why: "user:cyd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newChanging(t, "", func(cfg *dualcontrol.Config) { cfg.SwitchedOff = c.off })
			if c.prepare != nil {
				c.prepare(w)
			}
			got := w.gate.DualControl()
			if got.On != c.on || !strings.Contains(got.Why, c.why) {
				t.Errorf("%+v", got)
			}
			if c.on {
				id, done := w.begin("ann")
				if w.made != 0 {
					t.Error("made before an answer")
				}
				voter := "cyd"
				if name == "three people" {
					voter = "bob"
				}
				must.Get(w.desk.Votes.Decide(t.Context(), approvaltest.Caller(voter), id, yes))(t)
				if o := <-done; o.err != nil || o.ApprovalID != id || o.AloneBecause != "" || w.made != 1 || len(w.book.events) != 0 {
					t.Errorf("%+v, made %d", o, w.made)
				}
				return
			}
			o, err := w.change("ann")
			if err != nil || o.AloneBecause != got.Why || w.made != 1 {
				t.Errorf("%+v, %v, made %d", o, err, w.made)
			}
			if len(w.book.events) != 1 || !strings.Contains(string(w.book.events[0].Payload), `"alone":true`) {
				t.Errorf("the journal has %v", w.book.events)
			}
			w.book.fail = reason.Errorf(reason.JournalUnavailable, "full")
			if _, err := w.change("ann"); err == nil || w.made != 1 {
				t.Errorf("made without its event: %v", err)
			}
		})
	}
}

// A requester cannot make a change alone while dual control is on, even if every other person
// depends on the requester.
func TestUnattainable(t *testing.T) {
	t.Parallel()
	w := newChanging(t, "")
	w.history = provenance.History{made("cyd", "ann"), {Member: access.User("cyd"), Kind: provenance.Changed, By: []access.Principal{access.User("bob")}}}
	_, err := w.change("cyd")
	reasontest.Want(t, "the error", err, reason.ApprovalUnattainable)
	if next := reason.Known(err, "").NextStep(); !strings.Contains(next, "palyrad members confirm cyd") || !strings.Contains(next, "on the gateway's host") || w.made != 0 {
		t.Errorf("%v, made %d", err, w.made)
	}
}

// An admin can approve a change that concerns owners only if no other owner exists.
func TestAdminForOwners(t *testing.T) {
	t.Parallel()
	w := newChanging(t, "")
	w.plan.Question.Rule.Owner = true
	id, done := w.begin("ann")
	_, err := w.desk.Votes.Decide(t.Context(), approvaltest.Caller("cyd"), id, yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	must.Get(w.desk.Votes.Decide(t.Context(), approvaltest.Caller("bob"), id, yes))(t)
	must.Do(t, (<-done).err)
	w.put("bob", true, access.RoleOwner)
	id, done = w.begin("ann")
	must.Get(w.desk.Votes.Decide(t.Context(), approvaltest.Caller("cyd"), id, yes))(t)
	must.Do(t, (<-done).err)
}

// A change is not made if the plan, the requester's permissions or the policies changed between
// question and answer.
func TestChangedBeforeAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(*changing)
		code    reason.Code
	}{
		"nothing":               {func(*changing) {}, ""},
		"the change is another": {func(c *changing) { c.roles = "owner" }, reason.BindingMismatch},
		"nothing would change":  {func(c *changing) { c.plan.Nothing = true }, reason.BindingMismatch},
		"asker was disabled":    {func(c *changing) { c.put("ann", true, access.RoleOwner) }, reason.Unauthenticated},
		"asker lost the device": {func(c *changing) { c.dead["device-ann"] = true }, reason.Unauthenticated},
		"policy forbids it": {func(c *changing) {
			c.engine.Swap(policytest.Set(c.t, policytest.Options{Policies: forbidsEverything, Members: c.team}))
		}, reason.PermissionDenied},
		"policy forbids an owner what it cannot": {func(c *changing) {
			c.plan.Needs = access.PermPolicyActivate
			c.engine.Swap(policytest.Set(c.t, policytest.Options{Policies: forbidsEverything, Members: c.team}))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *changing, _ func()) {
				id, done := w.begin("ann")
				synctest.Wait()
				c.between(w)
				must.Get(w.desk.Votes.Decide(t.Context(), approvaltest.Caller("bob"), id, yes))(t)
				o := <-done
				reasontest.Want(t, "the error", o.err, c.code)
				if (w.made == 1) != (c.code == "") {
					t.Errorf("made %d", w.made)
				}
			})
		})
	}
}

// A plan without changes needs no approval.
func TestEmptyPlanNeedsNoApproval(t *testing.T) {
	t.Parallel()
	w := newChanging(t, "")
	w.plan.Nothing = true
	if o, err := w.change("ann"); err != nil || o != (dualcontrol.Outcome{Result: 1}) || w.made != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Policies can remove all but a few permissions. These belong to owners and admins who use a
// paired device.
func TestCeiling(t *testing.T) {
	t.Parallel()
	owner, admin, operator := approvaltest.Caller("a", access.RoleOwner), approvaltest.Caller("a", access.RoleAdmin), approvaltest.Caller("a", access.RoleOperator)
	token, loose, agent := owner, owner, owner
	token.Token, loose.Paired, agent.Principal = &access.TokenBounds{}, false, access.Agent("a")
	set := policytest.Set(t, policytest.Options{Members: members{user("a", access.RoleOwner)}})
	out := policytest.Set(t, policytest.Options{
		Members:  members{user("a", access.RoleOwner)},
		Snapshot: policy.Snapshot{AllowedPrincipals: []access.Principal{policytest.Alice}},
	})
	for _, p := range access.Permissions {
		if dualcontrol.Ceiling(out, owner, p) {
			t.Errorf("%s for whom the configuration leaves out", p)
		}
		forOwners := p == access.PermPolicyActivate || p == access.PermPolicyRead || p == access.PermPolicyCheck || p == access.PermGatewayThaw
		forBoth := p == access.PermDaemonStatus || p == access.PermApprovalRead || p == access.PermApprovalDecide
		if dualcontrol.Ceiling(set, owner, p) != (forOwners || forBoth) || dualcontrol.Ceiling(set, admin, p) != forBoth {
			t.Errorf("%s", p)
		}
		for _, c := range []access.Caller{operator, token, loose, agent} {
			if dualcontrol.Ceiling(set, c, p) {
				t.Errorf("%s for %+v", p, c)
			}
		}
	}
}
