package approvaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// Fixture is one empty store of a conformance run.
type Fixture struct {
	Store approval.Store
	// Events returns the codes that were journaled so far, in order.
	Events func() []event.Code
}

// RunStore is the conformance suite of approval.Store.
func RunStore(t *testing.T, newStore func(t *testing.T) Fixture) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"records come back whole", roundTrip},
		{"replacing a record compares", compareRecord},
		{"a record gives its request up", requestGone},
		{"replacing a grant compares", compareGrant},
		{"a failed unit leaves nothing", rollback},
		{"a unit sees what it wrote", ownWrites},
		{"pages are complete", pages},
		{"filters choose", filters},
		{"grants are filtered", grantFilters},
		{"what was asked before is counted", lately},
		{"changes come by revision", changes},
		{"the last allowed call is found", lastAllowed},
		{"the freeze is one row", freeze},
		{"what is not there is not found", notFound},
		{"concurrent units lose nothing", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore(t)) })
	}
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 678000, time.UTC)

func id(n int) string { return fmt.Sprintf("01JAAAAAAAAAAAAAAAAAA%05d", n) }

func record(n int, changes ...func(*approval.Record)) approval.Record {
	r := approval.Record{
		ID: id(n), ProposalID: id(50000 + n), CallDigest: fmt.Sprintf("sha256:%d", n), SnapshotDigest: "sha256:s",
		SubjectType: approval.SubjectTool, SubjectID: "process.run", Severity: "high",
		Prompt:      approval.Prompt{Title: "Run <it> & see", Arguments: json.RawMessage(`{"a":"<b>"}`)},
		RequestedBy: access.Agent("builder"), OnBehalfOf: access.User("owner"), Run: "r", Session: "s",
		CreatedAt: epoch.Add(time.Duration(n) * time.Second), ExpiresAt: epoch.Add(time.Hour),
		State: approval.Pending, Version: 1, Votes: []approval.Vote{},
		Binding: tool.Binding{Tool: "process.run", Arguments: json.RawMessage(`{"a":"<b>"}`)},
		Request: json.RawMessage(`{"secret":"only for the judge"}`),
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func grant(n int, changes ...func(*approval.Grant)) approval.Grant {
	g := approval.Grant{
		ID: id(n), ApprovalID: id(1), Scope: approval.Session, Match: approval.MatchExact, Tool: "process.run",
		Principal: access.Agent("builder"), OnBehalfOf: access.User("owner"), Session: "s",
		CreatedAt: epoch, ExpiresAt: epoch.Add(time.Hour), Version: 1,
	}
	for _, change := range changes {
		change(&g)
	}
	return g
}

// insert stores records and grants in one unit.
func insert(t *testing.T, s approval.Store, rows ...any) {
	t.Helper()
	err := s.Update(t.Context(), func(tx approval.Tx) error {
		for _, row := range rows {
			var err error
			switch v := row.(type) {
			case approval.Record:
				err = tx.InsertRecord(&v)
			case approval.Grant:
				err = tx.InsertGrant(v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("inserting: %v", err)
	}
}

func roundTrip(t *testing.T, f Fixture) {
	want := record(1, func(r *approval.Record) {
		r.State, r.Version, r.AnsweredAt, r.UseBy = approval.Allowed, 2, epoch.Add(time.Minute), epoch.Add(2*time.Minute)
		r.Votes = []approval.Vote{{
			User: access.User("alice"), Roles: []access.Role{access.RoleOperator}, Allow: true, Scope: approval.Session,
			TTL: 8 * time.Hour, Match: approval.MatchSubject, At: epoch,
		}}
		r.Binding.Argv, r.Binding.Operands = []string{"a\u202eb"}, []tool.Operand{{Path: "x", SHA256: "y"}}
	})
	insert(t, f.Store, want)
	got := must.Get(f.Store.Record(t.Context(), want.ID))(t)
	want.Revision = 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	wantGrant := grant(2, func(g *approval.Grant) { g.MintedBy, g.Uses, g.LastUsedAt = want.Votes, 3, epoch })
	insert(t, f.Store, wantGrant)
	gotGrant, err := f.Store.Grant(t.Context(), wantGrant.ID)
	if diff := cmp.Diff(wantGrant, gotGrant); err != nil || diff != "" {
		t.Errorf("grant: %v (-want +got):\n%s", err, diff)
	}
	list, _, err := f.Store.Records(t.Context(), approval.Filter{})
	if err != nil || len(list) != 1 || list[0].Request != nil {
		t.Errorf("a list has %d records, request %q, %v; want one without its request", len(list), list[0].Request, err)
	}
}

func compareRecord(t *testing.T, f Fixture) {
	insert(t, f.Store, record(1))
	replace := func(state approval.State, version int64) error {
		return f.Store.Update(t.Context(), func(tx approval.Tx) error {
			r := record(1, func(r *approval.Record) { r.State, r.Version = approval.Denied, 2 })
			return tx.ReplaceRecord(&r, state, version)
		})
	}
	for _, c := range []struct {
		state   approval.State
		version int64
		want    error
	}{
		{approval.Allowed, 1, approval.ErrStale},
		{approval.Pending, 2, approval.ErrStale},
		{approval.Pending, 1, nil},
		{approval.Pending, 1, approval.ErrStale},
	} {
		if err := replace(c.state, c.version); !errors.Is(err, c.want) {
			t.Errorf("replacing (%s, %d): %v, want %v", c.state, c.version, err, c.want)
		}
	}
	err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
		again := record(1)
		return tx.InsertRecord(&again)
	})
	if !errors.Is(err, approval.ErrStale) {
		t.Errorf("inserting an id twice: %v, want ErrStale", err)
	}
}

func requestGone(t *testing.T, f Fixture) {
	insert(t, f.Store, record(1))
	err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
		r := record(1, func(r *approval.Record) { r.State, r.Version, r.Request = approval.Denied, 2, nil })
		return tx.ReplaceRecord(&r, approval.Pending, 1)
	})
	got, readErr := f.Store.Record(t.Context(), id(1))
	if err != nil || readErr != nil || got.State != approval.Denied || got.Request != nil {
		t.Errorf("the record is %s with request %q, %v, %v", got.State, got.Request, err, readErr)
	}
}

func compareGrant(t *testing.T, f Fixture) {
	insert(t, f.Store, grant(1))
	for _, want := range []error{nil, approval.ErrStale} {
		err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
			return tx.ReplaceGrant(grant(1, func(g *approval.Grant) { g.Version = 2 }), 1)
		})
		if !errors.Is(err, want) {
			t.Errorf("replacing version 1: %v, want %v", err, want)
		}
	}
	err := f.Store.Update(t.Context(), func(tx approval.Tx) error { return tx.InsertGrant(grant(1)) })
	if !errors.Is(err, approval.ErrStale) {
		t.Errorf("inserting an id twice: %v, want ErrStale", err)
	}
}

func rollback(t *testing.T, f Fixture) {
	before := f.Events()
	boom := errors.New("boom")
	err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
		r := record(1)
		err := errors.Join(tx.InsertRecord(&r), tx.InsertGrant(grant(2)), tx.SetFreeze(&approval.FreezeState{At: epoch}))
		tx.Emit(event.Draft{Code: event.Asked, Actor: "user:a", Payload: json.RawMessage(`{}`)})
		return errors.Join(err, boom)
	})
	if !errors.Is(err, boom) {
		t.Fatalf("the unit's error came back as %v", err)
	}
	_, recordErr := f.Store.Record(t.Context(), id(1))
	_, grantErr := f.Store.Grant(t.Context(), id(2))
	frozen, freezeErr := f.Store.Freeze(t.Context())
	if !errors.Is(recordErr, approval.ErrNotFound) || !errors.Is(grantErr, approval.ErrNotFound) || frozen != nil || freezeErr != nil {
		t.Errorf("left behind: record %v, grant %v, freeze %v %v", recordErr, grantErr, frozen, freezeErr)
	}
	if after := f.Events(); !slices.Equal(before, after) {
		t.Errorf("events %v became %v", before, after)
	}
}

func ownWrites(t *testing.T, f Fixture) {
	before := len(f.Events())
	must.Do(t, f.Store.Update(t.Context(), func(tx approval.Tx) error {
		r := record(1)
		if err := errors.Join(tx.InsertRecord(&r), tx.InsertGrant(grant(2)), tx.SetFreeze(&approval.FreezeState{At: epoch})); err != nil {
			return err
		}
		got, recordErr := tx.Record(r.ID)
		_, grantErr := tx.Grant(id(2))
		frozen, freezeErr := tx.Freeze()
		if got.Revision != r.Revision || r.Revision == 0 || string(got.Request) != string(r.Request) || frozen == nil {
			t.Errorf("the unit reads revision %d, request %s, freeze %v", got.Revision, got.Request, frozen)
		}
		tx.Emit(event.Draft{Code: event.Asked, Actor: "user:a", Payload: json.RawMessage(`{}`)},
			event.Draft{Code: event.Frozen, Actor: "user:a", Payload: json.RawMessage(`{}`)})
		return errors.Join(recordErr, grantErr, freezeErr)
	}))
	if got := f.Events()[before:]; !slices.Equal(got, []event.Code{event.Asked, event.Frozen}) {
		t.Errorf("journaled %v", got)
	}
}

func pages(t *testing.T, f Fixture) {
	var want []string
	for n := range 7 {
		insert(t, f.Store, record(n), grant(n))
		want = append(want, id(n))
	}
	slices.Reverse(want)
	filter, grants := approval.Filter{PageSize: 3}, approval.GrantFilter{PageSize: 3}
	var upwards []string
	for up := (approval.Filter{PageSize: 3, Ascending: true}); len(upwards) == 0 || up.PageToken != ""; {
		page, next, err := f.Store.Records(t.Context(), up)
		must.Do(t, err)
		for _, r := range page {
			upwards = append(upwards, r.ID)
		}
		up.PageToken = next
	}
	slices.Reverse(upwards)
	if !slices.Equal(upwards, want) {
		t.Errorf("upwards, pages held %v, reversed; want %v", upwards, want)
	}
	var got, gotGrants []string
	for range 4 {
		page, next, err := f.Store.Records(t.Context(), filter)
		must.Do(t, err)
		for _, r := range page {
			got = append(got, r.ID)
		}
		if filter.PageToken = next; next == "" {
			break
		}
	}
	for range 4 {
		page, next, err := f.Store.Grants(t.Context(), grants)
		must.Do(t, err)
		for _, g := range page {
			gotGrants = append(gotGrants, g.ID)
		}
		if grants.PageToken = next; next == "" {
			break
		}
	}
	if !slices.Equal(got, want) || !slices.Equal(gotGrants, want) {
		t.Errorf("pages held %v and %v, want %v", got, gotGrants, want)
	}
}

func filters(t *testing.T, f Fixture) {
	insert(t, f.Store,
		record(1),
		record(2, func(r *approval.Record) { r.State = approval.Denied }),
		record(3, func(r *approval.Record) { r.SubjectType = approval.SubjectDevicePairing }),
		record(4, func(r *approval.Record) { r.RequestedBy, r.OnBehalfOf = access.User("carol"), access.User("carol") }),
		record(5, func(r *approval.Record) { r.Severity, r.Binding.Tool = "low", "fs.write" }),
		record(6, func(r *approval.Record) { r.SubjectID, r.Binding.Tool = "commit:default:sha256:1", "fs.write" }))
	for _, c := range []struct {
		name   string
		filter approval.Filter
		want   []string
	}{
		{"state", approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Denied, approval.Expired}}}, []string{id(2)}},
		{"subject type", approval.Filter{Traits: approval.Traits{SubjectTypes: []approval.SubjectType{approval.SubjectDevicePairing}}}, []string{id(3)}},
		{"principal", approval.Filter{Traits: approval.Traits{Principals: []access.Principal{access.User("carol")}}}, []string{id(4)}},
		{"on behalf of", approval.Filter{Traits: approval.Traits{Principals: []access.Principal{access.User("owner")}}}, []string{id(6), id(5), id(3), id(2), id(1)}},
		{"since", approval.Filter{Since: epoch.Add(3 * time.Second)}, []string{id(6), id(5), id(4), id(3)}},
		{"until", approval.Filter{Until: epoch.Add(3 * time.Second)}, []string{id(2), id(1)}},
		{"all at once", approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}, Principals: []access.Principal{access.User("owner")}}, Until: epoch.Add(3 * time.Second)}, []string{id(1)}},
		{"tools", approval.Filter{Traits: approval.Traits{Tools: []string{"fs.write", "none"}}}, []string{id(6), id(5)}},
		{"severities", approval.Filter{Traits: approval.Traits{Severities: []string{"low"}}}, []string{id(5)}},
		{"not these states", approval.Filter{Except: approval.Traits{States: []approval.State{approval.Pending}}}, []string{id(2)}},
		{"not this type, oldest first", approval.Filter{Except: approval.Traits{SubjectTypes: []approval.SubjectType{approval.SubjectDevicePairing}}, Ascending: true}, []string{id(1), id(2), id(4), id(5), id(6)}},
		{"not these people", approval.Filter{Except: approval.Traits{Principals: []access.Principal{access.User("owner"), access.Agent("x")}}}, []string{id(4)}},
		{"not this tool", approval.Filter{Except: approval.Traits{Tools: []string{"fs.write"}}}, []string{id(4), id(3), id(2), id(1)}},
		{"not this severity", approval.Filter{Except: approval.Traits{Severities: []string{"high", "critical"}}}, []string{id(5)}},
		{"one and not the other", approval.Filter{
			Traits: approval.Traits{Tools: []string{"fs.write"}, States: []approval.State{approval.Pending}}, Except: approval.Traits{Severities: []string{"low"}},
		}, []string{id(6)}},
	} {
		tally, err := f.Store.Tallied(t.Context(), c.filter)
		must.Do(t, err)
		if sum := sums(tally); tally.Total != int64(len(c.want)) || sum != [4]int64{tally.Total, tally.Total, tally.Total, tally.Total} {
			t.Errorf("%s: counted %d, %v", c.name, tally.Total, sum)
		}
		page, _, err := f.Store.Records(t.Context(), c.filter)
		must.Do(t, err)
		var got []string
		for _, r := range page {
			got = append(got, r.ID)
			if !c.filter.Admits(r) {
				t.Errorf("%s: the store chose %s, the filter does not admit it", c.name, r.ID)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func sums(t approval.Tallies) (n [4]int64) {
	for _, m := range t.ByState {
		n[0] += m
	}
	for _, m := range t.BySeverity {
		n[1] += m
	}
	for _, m := range t.BySubject {
		n[2] += m
	}
	for _, m := range t.ByTool {
		n[3] += m
	}
	return n
}

// lately counts earlier approval requests, and calls that ran without one, by grant matcher.
func lately(t *testing.T, f Fixture) {
	subject := func(name string) func(*approval.Record) { return func(r *approval.Record) { r.Subject = name } }
	insert(t, f.Store,
		record(1, subject("git")), // too old
		record(2, subject("git"), func(r *approval.Record) { r.CallDigest = "sha256:x" }),
		record(3, subject("git"), func(r *approval.Record) { r.Session = "other" }),
		record(4, subject("make"), func(r *approval.Record) { r.State = approval.Denied }),
		record(5, subject("git"), func(r *approval.Record) { r.RequestedBy = access.Agent("other") }),
		record(6, subject("git"), func(r *approval.Record) { r.OnBehalfOf = access.User("other") }),
		record(7, subject("git"), func(r *approval.Record) { r.Binding.Tool = "fs.write" }),
		record(8, subject("git"), func(r *approval.Record) { r.SubjectID = "commit:default:sha256:1" }))
	ran := func(n int, session string, change func(*event.Unasked)) {
		u := event.Unasked{RequestedBy: "agent:builder", OnBehalfOf: "user:owner", Tool: "process.run", Subject: "git", CallDigest: "sha256:x"}
		change(&u)
		must.Do(t, f.Store.Update(t.Context(), func(tx approval.Tx) error {
			tx.Emit(event.Draft{Code: event.Decided, Actor: u.RequestedBy, Session: session, Subject: id(n), Payload: []byte(`{}`), Unasked: &u})
			return nil
		}))
	}
	ran(11, "s", func(*event.Unasked) {})
	ran(12, "s", func(u *event.Unasked) { u.CallDigest = "sha256:y" })
	ran(13, "other", func(u *event.Unasked) { u.CallDigest, u.Subject = "sha256:z", "" })
	ran(14, "s", func(u *event.Unasked) { u.RequestedBy = "agent:other" })
	ran(15, "s", func(u *event.Unasked) { u.OnBehalfOf = "user:other" })
	ran(16, "s", func(u *event.Unasked) { u.Tool = "fs.write" })
	q := approval.LatelyQuery{
		RequestedBy: access.Agent("builder"), OnBehalfOf: access.User("owner"), Session: "s", Subject: "git", CallDigest: "sha256:x",
		ComparedAs: "process.run", Since: epoch.Add(2 * time.Second),
	}
	got := must.Get(f.Store.Lately(t.Context(), q))(t)
	asked := approval.Counted{All: approval.Matching{Exact: 1, Subject: 2, Tool: 3}, InSession: approval.Matching{Exact: 1, Subject: 1, Tool: 2}}
	if got.Asked != asked {
		t.Errorf("asked %+v, want %+v", got.Asked, asked)
	}
	q.Since = epoch.AddDate(-30, 0, 0) // calls without a request have the time of the store
	unasked := approval.Counted{All: approval.Matching{Exact: 1, Subject: 2, Tool: 3}, InSession: approval.Matching{Exact: 1, Subject: 2, Tool: 2}}
	if got = must.Get(f.Store.Lately(t.Context(), q))(t); got.Unasked != unasked {
		t.Errorf("unasked %+v, want %+v", got.Unasked, unasked)
	}
}

func grantFilters(t *testing.T, f Fixture) {
	insert(t, f.Store,
		grant(1),
		grant(2, func(g *approval.Grant) { g.RevokedAt = epoch }),
		grant(3, func(g *approval.Grant) { g.Session = "other" }),
		grant(4, func(g *approval.Grant) { g.Principal = access.Agent("other") }))
	must.Do(t, f.Store.Update(t.Context(), func(tx approval.Tx) error {
		return tx.ReplaceGrant(grant(1, func(g *approval.Grant) { g.EndedAt, g.Version = epoch, 2 }), 1)
	}))
	for _, c := range []struct {
		name   string
		filter approval.GrantFilter
		want   []string
	}{
		{"open", approval.GrantFilter{Open: true}, []string{id(4), id(3)}},
		{"session", approval.GrantFilter{Session: "other"}, []string{id(3)}},
		{"principal", approval.GrantFilter{Principal: access.Agent("other")}, []string{id(4)}},
		{"on behalf of", approval.GrantFilter{Principal: access.User("owner")}, []string{id(4), id(3), id(2), id(1)}},
	} {
		page, _, err := f.Store.Grants(t.Context(), c.filter)
		var got []string
		for _, g := range page {
			got = append(got, g.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func changes(t *testing.T, f Fixture) {
	insert(t, f.Store, record(1), record(2))
	must.Do(t, f.Store.Update(t.Context(), func(tx approval.Tx) error {
		r := record(1, func(r *approval.Record) { r.State, r.Version = approval.Denied, 2 })
		return tx.ReplaceRecord(&r, approval.Pending, 1)
	}))
	list, err := f.Store.Changes(t.Context(), 0, 10)
	if err != nil || len(list) != 2 || list[0].ID != id(2) || list[1].ID != id(1) || list[1].State != approval.Denied {
		t.Fatalf("changes: %v, %v", list, err)
	}
	last, err := f.Store.LastRevision(t.Context())
	if err != nil || last != 3 || list[1].Revision != last {
		t.Errorf("last revision %d, %v, and that of the last change %d, want 3", last, err, list[1].Revision)
	}
	if list, err = f.Store.Changes(t.Context(), list[0].Revision, 10); err != nil || len(list) != 1 || list[0].ID != id(1) {
		t.Errorf("changes after the first: %v, %v", list, err)
	}
	if list, err = f.Store.Changes(t.Context(), 0, 1); err != nil || len(list) != 1 {
		t.Errorf("changes with limit 1: %d, %v", len(list), err)
	}
}

func lastAllowed(t *testing.T, f Fixture) {
	answered := func(state approval.State, after time.Duration, cwd string) func(*approval.Record) {
		return func(r *approval.Record) {
			r.State, r.AnsweredAt, r.Binding.Cwd = state, epoch.Add(after), cwd
		}
	}
	insert(t, f.Store,
		record(1, answered(approval.Consumed, time.Minute, "old")),
		record(2, answered(approval.Consumed, 2*time.Minute, "newest")),
		record(3, answered(approval.Allowed, time.Second, "older")),
		record(4, answered(approval.Denied, time.Hour, "denied")),
		record(5, answered(approval.Consumed, time.Hour, "other"), func(r *approval.Record) { r.RequestedBy = access.Agent("other") }),
		record(6, answered(approval.Consumed, time.Hour, "changes"), func(r *approval.Record) { r.SubjectID = "commit:default:sha256:1" }))
	b, found, err := f.Store.LastAllowed(t.Context(), access.Agent("builder"), "process.run")
	if err != nil || !found || b.Cwd != "newest" {
		t.Errorf("last allowed: %q, %v, %v", b.Cwd, found, err)
	}
	if _, found, err = f.Store.LastAllowed(t.Context(), access.Agent("builder"), "fs.write"); found || err != nil {
		t.Errorf("another tool: %v, %v", found, err)
	}
}

func freeze(t *testing.T, f Fixture) {
	first := &approval.FreezeState{By: access.User("alice"), Reason: "one", At: epoch}
	second := &approval.FreezeState{By: access.User("bob"), Reason: "two", At: epoch.Add(time.Minute)}
	for _, want := range []*approval.FreezeState{first, second, nil, nil} {
		must.Do(t, f.Store.Update(t.Context(), func(tx approval.Tx) error { return tx.SetFreeze(want) }))
		got, err := f.Store.Freeze(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("freeze: %v (-want +got):\n%s", err, diff)
		}
	}
}

func notFound(t *testing.T, f Fixture) {
	_, recordErr := f.Store.Record(t.Context(), id(9))
	_, grantErr := f.Store.Grant(t.Context(), id(9))
	err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
		_, inRecord := tx.Record(id(9))
		_, inGrant := tx.Grant(id(9))
		if !errors.Is(inRecord, approval.ErrNotFound) || !errors.Is(inGrant, approval.ErrNotFound) {
			t.Errorf("in a unit: %v, %v", inRecord, inGrant)
		}
		return nil
	})
	if err != nil || !errors.Is(recordErr, approval.ErrNotFound) || !errors.Is(grantErr, approval.ErrNotFound) {
		t.Errorf("%v, %v, %v", err, recordErr, grantErr)
	}
}

func concurrent(t *testing.T, f Fixture) {
	insert(t, f.Store, grant(1))
	const users = 20
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			err := f.Store.Update(t.Context(), func(tx approval.Tx) error {
				g, err := tx.Grant(id(1))
				if err != nil {
					return err
				}
				version := g.Version
				g.Uses++
				g.Version++
				return tx.ReplaceGrant(g, version)
			})
			if err != nil {
				t.Errorf("a unit lost: %v", err)
			}
		})
	}
	wg.Wait()
	if g, err := f.Store.Grant(t.Context(), id(1)); err != nil || g.Uses != users {
		t.Errorf("%d uses, %v, want %d", g.Uses, err, users)
	}
}
