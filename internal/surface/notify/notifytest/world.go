// Package notifytest runs notifications on a real store, journal and desk.
package notifytest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/mod/sumdb/note"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/deliveries"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/surface/notify"
)

// World is a gateway with the parts that notifications use.
type World struct {
	t       testing.TB
	DB      *sqlite.DB
	Desk    *approval.Desk
	Judge   *approvaltest.Judge
	Journal *journal.Log
	Store   deliveries.Store
	Users   *notify.Users
	Members Members
	// Held is a member that another member controls.
	Held access.Principal
}

// Members are the gateway's members.
type Members map[access.Principal]access.Member

// Active implements notify.Members.
func (m Members) Active(p access.Principal) (access.Member, bool) {
	found, ok := m[p]
	return found, ok && !found.Disabled
}

// Get implements notify.Members.
func (m Members) Get(p access.Principal) (access.Member, bool) {
	found, ok := m[p]
	return found, ok
}

// New returns a world in which user:ann may vote.
func New(t testing.TB) *World {
	t.Helper()
	db := sqlitetest.Open(t)
	w := &World{t: t, DB: db, Store: deliveries.New(db), Judge: &approvaltest.Judge{Need: 1}, Members: Members{}}
	w.Members[access.User("ann")] = access.Member{Principal: access.User("ann"), Roles: []access.Role{access.RoleOperator}}
	secret, _, err := note.GenerateKey(rand.Reader, sqlitetest.Origin)
	must.Do(t, err)
	w.Journal = must.Get(journal.New(db, journal.Options{Key: must.Get(journal.ParseKey(secret))(t)}))(t)
	must.Do(t, w.Journal.Record(context.Background(), event.Opened, journal.Daemon, "", struct{}{}))
	w.Desk = approvaltest.Open(t, sqlite.NewApprovals(db), w.Judge, approval.Limits{})
	approvaltest.Start(t, w.Desk)
	w.Users = must.Get(notify.NewUsers(context.Background(), w.Store, w.Members, w, change.Unguarded, time.Now))(t)
	return w
}

// OwnWord implements notify.Consents. Only w.Held is controlled by another member.
func (w *World) OwnWord(by access.Caller) error {
	if by.Principal == w.Held {
		return reason.Errorf(reason.PermissionDenied, "%s is controlled by another member", by.Principal)
	}
	return nil
}

// Maps maps a user of a chat to a member, who consents.
func (w *World) Maps(team, user string, member access.Principal) {
	w.t.Helper()
	must.Get(w.Users.Map(w.t.Context(), access.Caller{Principal: access.User("ada"), DeviceID: "d"}, team, user, member))(w.t)
	must.Get(w.Users.Consent(w.t.Context(), access.Caller{Principal: member, DeviceID: "d"}, team, user, false))(w.t)
}

// Voter returns a voter of this world.
func (w *World) Voter() *notify.Voter {
	return &notify.Voter{Approvals: w.Desk.Records, Votes: w.Desk.Votes, Users: w.Users, Members: w.Members, Permit: func(access.Caller, access.Permission) error { return nil }}
}

// Start runs notifications until stop, or until the end of the test.
func (w *World) Start(targets ...notify.Target) (s *notify.Service, stop func()) {
	w.t.Helper()
	s = notify.New(notify.Config{
		Store: w.Store, Journal: w.Journal, Approvals: w.Desk.Records, Targets: targets, Log: slog.New(slog.DiscardHandler),
		Link: func(id string) string { return "https://gateway.test/approvals/" + id },
	})
	stop = must.Run(w.t, s.Run)
	// Events before the service follows the journal are not delivered.
	w.UntilStored(func() bool {
		return len(targets) == 0 || must.Get(w.Store.NotifyCursor(context.Background()))(w.t) > 0
	})
	return s, stop
}

// Ask starts a call that waits for an approval, and returns the approval.
func (w *World) Ask(changes ...func(*approval.Ask)) approval.Record {
	w.t.Helper()
	p := approvaltest.Resolve(w.Desk, approvaltest.Ask(w.t, changes...))
	w.t.Cleanup(func() { p.Leave(context.Canceled) })
	select {
	case r := <-p.Records:
		return r
	case o := <-p.Done:
		w.t.Fatalf("the call does not wait: %v", o.Err)
	}
	return approval.Record{}
}

// Ended waits until a delivery of a kind to a target has ended, and returns it.
func (w *World) Ended(target string, kind notify.Kind) notify.Delivery {
	w.t.Helper()
	var found notify.Delivery
	w.Until(func() bool {
		list := must.Get(w.Store.Deliveries(context.Background(), notify.Filter{Target: target, Size: 100}))(w.t)
		i := slices.IndexFunc(list, func(d notify.Delivery) bool { return d.Kind == kind && d.State != notify.Queued })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

// Until waits for a condition that a later event makes true.
func (w *World) Until(is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), must.Patience)
	defer cancel()
	for {
		head := w.Journal.Head().Seq
		if is() {
			return
		}
		if err := w.DB.Wait(ctx, head); err != nil {
			w.t.Fatalf("it does not happen: %v", err)
		}
	}
}

// Events returns the events with a code.
func (w *World) Events(code event.Code) []journal.Event {
	w.t.Helper()
	return must.Get(w.Journal.List(context.Background(), journal.Filter{Code: string(code)}))(w.t)
}

// UntilStored waits for a condition on the store that no event announces.
func (w *World) UntilStored(is func() bool) {
	w.t.Helper()
	must.Eventually(w.t, "it is stored", func() (bool, string) { return is(), "" })
}

// Hurry makes all queued deliveries due.
func (w *World) Hurry() {
	w.t.Helper()
	for _, d := range must.Get(w.Store.Deliveries(context.Background(), notify.Filter{States: []notify.State{notify.Queued}, Size: 100}))(w.t) {
		d.NextAt = d.QueuedAt
		must.Do(w.t, w.Store.PutDelivery(context.Background(), d))
	}
}

// Fill queues n deliveries for a target that are not due for a day.
func (w *World) Fill(target string, n int) {
	w.t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	list := make([]notify.Delivery, n)
	for i := range list {
		list[i] = notify.Delivery{
			ID: ulid.Make().String(), Target: target, Kind: notify.Frozen, Severity: "low", State: notify.Queued, QueuedAt: now, NextAt: now.Add(24 * time.Hour),
		}
	}
	must.Do(w.t, w.Store.QueueDeliveries(context.Background(), w.Journal.Head().Seq, list, nil))
}
