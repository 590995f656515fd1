package dualcontrol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

// forbidsEverything removes every permission that a policy can remove.
const forbidsEverything = `@id("nothing") @reason("nobody does anything")
forbid(principal, action, resource);`

var (
	yes = approval.Ballot{Allow: true}
	no  = approval.Ballot{Reason: "not now"}
)

// members are the members of a test; the type is an access.MemberStore.
type members []access.Member

func (m members) Members(context.Context) ([]access.Member, error) { return m, nil }

func user(name string, roles ...access.Role) access.Member {
	return access.Member{Principal: access.User(name), Roles: roles, CreatedAt: policytest.Now}
}

// world is a desk with the judge of this package. Ann and bob are owners, cyd is an admin, dan an
// operator, eve an auditor. The policies permit nothing.
type world struct {
	t        *testing.T
	desk     *approval.Desk
	store    *approvaltest.Store
	gate     *dualcontrol.Gate
	registry *access.Registry
	engine   *policy.Engine
	history  provenance.History
	dead     map[string]bool
	sessions map[string]bool
	team     members
}

func newWorld(t *testing.T, policies string) *world {
	t.Helper()
	people := members{
		user("ann", access.RoleOwner), user("bob", access.RoleOwner), user("cyd", access.RoleAdmin),
		user("dan", access.RoleOperator), user("eve", access.RoleAuditor),
		{Principal: access.Agent("helper"), Owner: access.User("cyd"), Roles: []access.Role{access.RoleAgent}},
	}
	w := &world{t: t, store: approvaltest.NewStore(t), dead: map[string]bool{}, sessions: map[string]bool{}, team: people}
	w.registry = must.Get(access.NewRegistry(t.Context(), people, nil))(t)
	w.engine = policytest.Engine(t, policytest.Options{Policies: policies, Members: people})
	w.desk = approvaltest.Open(t, w.store, dualcontrol.Judge{Calls: &approvaltest.Judge{Need: 1}, People: w.people()}, approval.Limits{})
	approvaltest.Start(t, w.desk)
	w.gate = dualcontrol.New(dualcontrol.Config{Requests: w.desk.Requests, Records: w.desk.Records, People: w.people()})
	return w
}

func (w *world) people() dualcontrol.People {
	return dualcontrol.People{
		Members: w.registry, Engine: w.engine, History: func() provenance.History { return w.history },
		LiveDevice: func(id string) bool { return !w.dead[id] }, Session: func(id string) bool { return w.sessions[id] },
	}
}

// roleChange is ann's question about dan's roles.
func roleChange(details string) dualcontrol.Question {
	return dualcontrol.Question{
		Type: approval.SubjectGatewayChange, ID: "member:user:dan", Title: "Give user:dan the role admin",
		Summary: "user:ann wants to give user:dan the role admin.", Details: map[string]string{"roles": details},
		Requester: approvaltest.Caller("ann", access.RoleOwner),
	}
}

func pairing() dualcontrol.Question {
	q := roleChange("x")
	q.Type, q.ID, q.Rule = approval.SubjectDevicePairing, "device:new", dualcontrol.Rule{Not: "device-new"}
	return q
}

// asked is a question that waits for its answer.
type asked struct {
	w      *world
	record approval.Record
	leave  context.CancelFunc
	done   chan outcome
}

type outcome struct {
	yes dualcontrol.Consent
	err error
}

func (w *world) ask(q dualcontrol.Question) *asked {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	a := &asked{w: w, leave: cancel, done: make(chan outcome, 1)}
	records := make(chan approval.Record, 16)
	go func() {
		y, err := w.gate.Ask(ctx, q, func(r *approval.Record) { records <- *r })
		a.done <- outcome{y, err}
	}()
	select {
	case a.record = <-records:
	case o := <-a.done:
		w.t.Fatalf("not asked: %v", o.err)
	}
	return a
}

func (a *asked) vote(name string, b approval.Ballot) (approval.Record, error) {
	return a.w.desk.Votes.Decide(a.w.t.Context(), approvaltest.Caller(name), a.record.ID, b)
}

// pending fails the test unless the question still waits.
func (a *asked) pending() {
	a.w.t.Helper()
	if r := must.Get(a.w.desk.Records.Get(a.w.t.Context(), a.record.ID))(a.w.t); r.State != approval.Pending {
		a.w.t.Errorf("it is %s", r.State)
	}
}

// A question shows the change, its requester and the device, and its answer permits one change. The
// digest binds the details.
func TestQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, forbidsEverything)
	a := w.ask(roleChange("admin"))
	r := a.record
	if !r.AboutGateway() || r.Binding.Tool != approval.ChangeTool || r.RequestedBy != access.User("ann") || r.Device != "device-ann" || r.Severity != "high" {
		t.Errorf("%+v", r)
	}
	var shown struct {
		Subject string            `json:"subject"`
		Change  map[string]string `json:"change"`
	}
	must.Do(t, json.Unmarshal(r.Prompt.Arguments, &shown))
	if shown.Subject != "member:user:dan" || shown.Change["roles"] != "admin" || !strings.Contains(r.Prompt.Summary, "user:ann wants") {
		t.Errorf("%+v, %q", shown, r.Prompt.Summary)
	}
	if len(r.Prompt.Scopes) != 1 || r.Prompt.Scopes[0].Scope != approval.Once {
		t.Errorf("%+v", r.Prompt.Scopes)
	}
	for _, b := range []approval.Ballot{
		{Allow: true, Scope: approval.Session}, {Allow: true, Scope: approval.Timeboxed, TTL: 3600e9},
		{Allow: true, Scope: approval.Timeboxed, TTL: 3600e9, Match: approval.MatchTool},
	} {
		_, err := a.vote("bob", b)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
	}
	_, err := a.vote("bob", approval.Ballot{Allow: true, ShownDigest: "sha256:other"})
	reasontest.Want(t, "the error", err, reason.DigestMismatch)
	other := w.ask(roleChange("owner"))
	if other.record.CallDigest == r.CallDigest || other.record.ID == r.ID {
		t.Error("other details are the same question")
	}
	must.Get(a.vote("bob", approval.Ballot{Allow: true, ShownDigest: r.CallDigest}))(t)
	if o := <-a.done; o.err != nil || o.yes.ApprovalID() != r.ID {
		t.Errorf("%+v", o)
	}
	other.pending()
}

// The rules for eligible voters are in code. Policies that forbid everything exclude no
// eligible voter, and policies that allow everything add none.
func TestEligibleApprovers(t *testing.T) {
	t.Parallel()
	const allowsEverything = `@id("everything")
permit(principal, action in [Action::"approval.*", Action::"access.*", Action::"policy.*", Action::"gateway.*", Action::"device.pair"], resource);`
	for _, policies := range []string{forbidsEverything, allowsEverything} {
		w := newWorld(t, policies)
		for name, ok := range map[string]bool{"ann": false, "bob": true, "cyd": true, "dan": false, "eve": false, "nobody": false} {
			a := w.ask(roleChange(name))
			switch _, err := a.vote(name, yes); {
			case ok && err == nil:
				must.Do(t, (<-a.done).err)
			case ok || reason.Of(err) != reason.PermissionDenied:
				t.Errorf("%s: %v", name, err)
			default:
				a.pending()
			}
		}
	}
}

// The requester, and members whose device is revoked, cannot answer. Tokens and clients without a
// paired device cannot answer either.
func TestWhoDoesNotCount(t *testing.T) {
	t.Parallel()
	did := func(kind provenance.Kind, member string, by ...string) provenance.Act {
		act := provenance.Act{Member: access.User(member), Kind: kind}
		for _, name := range by {
			act.By = append(act.By, access.User(name))
		}
		return act
	}
	for name, c := range map[string]struct {
		history provenance.History
		prepare func(*world)
		ok      bool
	}{
		"no member created another":      {ok: true},
		"ann made bob":                   {history: provenance.History{did(provenance.Made, "bob", "ann")}},
		"bob made ann":                   {history: provenance.History{did(provenance.Made, "ann", "bob")}},
		"one made both":                  {history: provenance.History{did(provenance.Made, "ann", "zed"), did(provenance.Made, "bob", "zed")}},
		"the host confirmed bob":         {history: provenance.History{did(provenance.Made, "bob", "ann"), did(provenance.Confirmed, "bob")}, ok: true},
		"ann changed bob after":          {history: provenance.History{did(provenance.Confirmed, "bob"), did(provenance.Changed, "bob", "ann")}},
		"bob's device was revoked":       {prepare: func(w *world) { w.dead["device-bob"] = true }},
		"bob is disabled":                {prepare: func(w *world) { w.put("bob", true, access.RoleOwner) }},
		"bob is an operator by now":      {prepare: func(w *world) { w.put("bob", false, access.RoleOperator) }},
		"bob is an admin, which will do": {prepare: func(w *world) { w.put("bob", false, access.RoleAdmin) }, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.history = c.history
			a := w.ask(roleChange("admin"))
			if c.prepare != nil {
				c.prepare(w)
			}
			_, _ = a.vote("bob", yes)
			if c.ok {
				must.Do(t, (<-a.done).err)
				return
			}
			a.pending()
		})
	}
	w := newWorld(t, "")
	a := w.ask(roleChange("admin"))
	token, loose := approvaltest.Caller("bob"), approvaltest.Caller("bob")
	token.Token, loose.Paired = &access.TokenBounds{Scopes: access.Permissions, Creator: access.User("bob")}, false
	for _, c := range []access.Caller{token, loose} {
		_, err := w.desk.Votes.Decide(t.Context(), c, a.record.ID, yes)
		reasontest.Want(t, "the error", err, reason.PermissionDenied)
	}
	a.pending()
}

func (w *world) put(name string, disabled bool, roles ...access.Role) {
	m := user(name, roles...)
	m.Disabled = disabled
	w.registry.Put(m)
}

// The approval of an admin does not count if the change concerns owners or admins.
func TestOwnersAnswerForOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	q := roleChange("admin")
	q.Rule.Owner = true
	a := w.ask(q)
	_, err := a.vote("cyd", yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	must.Get(a.vote("bob", yes))(t)
	must.Do(t, (<-a.done).err)
}

// A member whom the requester controls may deny; their approval does not count.
func TestControlledMemberMayDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.history = provenance.History{{Member: access.User("cyd"), Kind: provenance.Made, By: []access.Principal{access.User("ann")}}}
	a := w.ask(roleChange("admin"))
	r := must.Get(a.vote("cyd", yes))(t)
	if r.State != approval.Pending || !strings.Contains(r.Missing, "user:cyd is not") {
		t.Errorf("%s, %q", r.State, r.Missing)
	}
	b := w.ask(roleChange("owner"))
	must.Get(b.vote("cyd", no))(t)
	o := <-b.done
	reasontest.Want(t, "the error", o.err, reason.ApprovalDenied)
	if !strings.Contains(o.err.Error(), "not now") {
		t.Errorf("%v", o.err)
	}
}

// One approval permits one change, and only while its voter is eligible.
func TestApprovalPermitsOneChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	draft := must.Get(event.DraftOf(event.MemberChanged, "user:ann", "user:dan", struct{}{}))(t)
	a := w.ask(roleChange("admin"))
	must.Get(a.vote("bob", yes))(t)
	y := (<-a.done).yes
	must.Do(t, y.Use(t.Context(), draft))
	reasontest.Want(t, "the error", y.Use(t.Context(), draft), reason.ApprovalConflict)
	reasontest.Want(t, "the error", dualcontrol.Consent{}.Use(t.Context(), draft), reason.PermitRefused)
	var codes []event.Code
	for _, e := range w.store.Events() {
		codes = append(codes, e.Code)
	}
	if wanted := []event.Code{event.Asked, event.Voted, event.Answered, event.Consumed, event.MemberChanged}; !slices.Equal(codes, wanted) {
		t.Errorf("%v", codes)
	}
	for name, lose := range map[string]func(*world){
		"role":   func(w *world) { w.put("bob", false, access.RoleOperator) },
		"device": func(w *world) { w.dead["device-bob"] = true },
		"independence": func(w *world) {
			w.history = provenance.History{{Member: access.User("bob"), Kind: provenance.Changed, By: []access.Principal{access.User("ann")}}}
		},
	} {
		w := newWorld(t, "")
		a := w.ask(roleChange("admin"))
		must.Get(a.vote("bob", yes))(t)
		y := (<-a.done).yes
		lose(w)
		if err := y.Use(t.Context(), draft); reason.Of(err) != reason.ApprovalRevoked {
			t.Errorf("the voter lost the %s: %v", name, err)
		}
	}
}

// Members who may change members admit a device, including the member who made the code. The device
// cannot admit itself.
func TestWhoAdmitsADevice(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"ann": true, "bob": true, "cyd": true, "dan": false, "eve": false} {
		for _, owner := range []bool{false, true} {
			w := newWorld(t, "")
			q := pairing()
			q.Rule.Owner = owner
			a := w.ask(q)
			_, err := a.vote(name, yes)
			if good := ok && (!owner || name != "cyd"); good != (err == nil) {
				t.Errorf("%s, owner %v: %v", name, owner, err)
			}
			if err == nil {
				must.Do(t, (<-a.done).err)
			}
		}
	}
	w := newWorld(t, "")
	a := w.ask(pairing())
	itself := approvaltest.Caller("ann")
	itself.DeviceID = "device-new"
	_, err := w.desk.Votes.Decide(t.Context(), itself, a.record.ID, yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	// A policy on access.write applies here.
	w = newWorld(t, forbidsEverything)
	a = w.ask(pairing())
	_, err = a.vote("bob", yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
}

// A login session cannot allow a device of its own person, which would outlast it, in any role. The
// vote of a device that became a session does not count either. Another device of the same person,
// or another person, can allow it.
func TestSessionGivesItselfNoDevice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dan", "ann"} {
		w := newWorld(t, "")
		ask := func() *asked {
			q := pairing()
			q.Requester = access.Caller{Principal: access.User(name), OnBehalfOf: access.User(name)}
			q.Rule = must.Get(w.gate.PairingRule(true, false, q.Requester))(t)
			return w.ask(q)
		}
		session, lasting := approvaltest.Caller(name), approvaltest.Caller(name)
		session.DeviceID, lasting.DeviceID = "device-session", "device-lasting"
		w.sessions[session.DeviceID] = true
		a := ask()
		_, err := w.desk.Votes.Decide(t.Context(), session, a.record.ID, yes)
		reasontest.Want(t, "the error", err, reason.PermissionDenied)
		a.pending()
		must.Get(w.desk.Votes.Decide(t.Context(), lasting, a.record.ID, yes))(t)
		must.Do(t, (<-a.done).err)
		a = ask()
		must.Get(a.vote("bob", yes))(t)
		must.Do(t, (<-a.done).err)
		// Control: without the session, the same vote counts.
		delete(w.sessions, session.DeviceID)
		a = ask()
		must.Get(w.desk.Votes.Decide(t.Context(), session, a.record.ID, yes))(t)
		must.Do(t, (<-a.done).err)
	}
}

// A member's own additional device requires no other person. While dual control is on, a device
// of another or a new member requires a second person. Otherwise a member who makes a code
// could add a member alone. Control: while only one person could answer, that person is enough.
func TestSecondPersonForADevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	by := func(name string) access.Caller {
		return access.Caller{Principal: access.User(name), OnBehalfOf: access.User(name)}
	}
	ask := func(own bool, requester string) *asked {
		q := pairing()
		q.Requester = by(requester)
		q.Rule = must.Get(w.gate.PairingRule(own, false, q.Requester))(t)
		return w.ask(q)
	}
	own := ask(true, "dan")
	_, err := own.vote("eve", yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	must.Get(own.vote("dan", yes))(t)
	must.Do(t, (<-own.done).err)

	other := ask(false, "ann")
	_, err = other.vote("ann", yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	other.pending()
	must.Get(other.vote("bob", yes))(t)
	if o := <-other.done; o.err != nil || !slices.Equal(o.yes.By(), []access.Principal{access.User("bob")}) {
		t.Errorf("by %v: %v", o.yes.By(), o.err)
	}

	w.history = append(w.history, made("bob", "ann"), made("cyd", "ann"))
	alone := ask(false, "ann")
	must.Get(alone.vote("ann", yes))(t)
	must.Do(t, (<-alone.done).err)
}

// A requester who disconnects withdraws the question. A question from before a restart belongs to
// no requester.
func TestDisconnectedRequesterWithdraws(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	a := w.ask(roleChange("admin"))
	a.leave()
	reasontest.Want(t, "the error", (<-a.done).err, reason.Cancelled)
	if r := must.Get(w.desk.Records.Get(t.Context(), a.record.ID))(t); r.State != approval.Cancelled {
		t.Errorf("it is %s", r.State)
	}
	for _, q := range []dualcontrol.Question{roleChange("owner"), pairing()} {
		a := w.ask(q)
		again := approvaltest.Open(t, w.store, dualcontrol.Judge{Calls: &approvaltest.Judge{}, People: w.people()}, approval.Limits{})
		must.Do(t, again.Records.MarkRunsGone(t.Context()))
		_, err := again.Votes.Decide(t.Context(), approvaltest.Caller("bob"), a.record.ID, yes)
		reasontest.Want(t, "the error", err, reason.ApprovalConflict)
	}
}

// A freeze blocks device pairings, but not the change that ends the freeze.
func TestFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	must.Do(t, w.desk.Freezer.Freeze(t.Context(), approvaltest.Caller("ann"), "look"))
	_, err := w.gate.Ask(t.Context(), pairing(), nil)
	reasontest.Want(t, "the error", err, reason.GatewayFrozen)
	a := w.ask(roleChange("admin"))
	must.Get(a.vote("bob", yes))(t)
	must.Do(t, (<-a.done).yes.Use(t.Context()))
}

// A call cannot pose as a question about the gateway, or the reverse: the subject type must match
// the tool name in the binding.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for i, c := range []struct {
		t    approval.SubjectType
		tool string
	}{
		{approval.SubjectTool, approval.ChangeTool}, {approval.SubjectTool, approval.PairingTool}, {"", approval.ChangeTool},
		{approval.SubjectGatewayChange, "process.run"}, {approval.SubjectDevicePairing, approval.ChangeTool},
		{approval.SubjectGatewayChange, approval.PairingTool},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ask := approvaltest.Ask(t, func(a *approval.Ask) {
				a.SubjectType, a.Proposal.Tool.Name, a.Plan.Binding.Tool = c.t, c.tool, c.tool
			})
			_, err := w.desk.Requests.Resolve(t.Context(), &ask, nil)
			reasontest.Want(t, "the error", err, reason.BindingMismatch)
		})
	}
}
