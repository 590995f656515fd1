// Package approval requests approvals for calls and stores the answers.
//
// A Record is a request about one exact call and collects votes. A Grant is a standing approval
// that votes created. A Desk has one part for each noun: Requests of calls, their Records,
// Votes and Edits, the Grants, and the Freezer. An approval does not override policy: after
// every vote a Judge evaluates policy with the votes as facts.
//
// Records, grants and the freeze are rows of the Store, which is authoritative. The requests
// that are open, and the calls that wait for them, are in the memory of one process
// (openRequests); several replicas will share them.
//
// Every change of a record's state goes through one function, transition. It compares state and
// version, and writes the record and its journal event in one unit of the store's writer.
// Exactly one of several concurrent changes succeeds; the others return an error that names the
// actor of the successful one.
//
// The package does not depend on policy, the journal or SQL: Judge and Store are its interfaces
// to them.
//
// A requester's reason is a field of the request and not an argument. A tool would receive an
// argument, and the call digest would cover it, so that no grant would cover a second call.
// Waiting calls with different reasons are different requests. Grants and remembered denials
// ignore the reason, because a requester could repeat a call with other words. Policy reads the
// text, which is unverified: a rule may deny by it and should allow nothing by it alone.
package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"palyra/internal/call/approval/internal/deadline"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
)

// Ruling is the policy verdict on a record with some votes.
type Ruling struct {
	Allowed bool
	// Missing describes the missing votes in plain words if not allowed; Needs is the
	// machine-readable form.
	Missing string
	Needs   *Needs
}

// Judge evaluates policies for the desk. Package call implements it.
type Judge interface {
	// Judge evaluates the record's request with the votes as facts.
	Judge(ctx context.Context, r Record, votes []Vote) (Ruling, error)
	// MayDecide returns nil if the caller may answer the record: the caller needs permission
	// approval.decide and must not be the requester.
	MayDecide(ctx context.Context, caller access.Caller, r Record) error
	// MayGrantBroad returns nil if the caller may create a grant with matcher tool: the caller
	// needs permission approval.grant_broad.
	MayGrantBroad(ctx context.Context, caller access.Caller) error
}

// Config is the configuration of a desk.
type Config struct {
	Store  Store
	Judge  Judge
	Limits Limits
	// Guard permits the end of a freeze; nil permits none.
	Guard change.Guard
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Desk connects the parts that handle approvals, and enforces their deadlines. It is safe for
// concurrent use.
type Desk struct {
	Requests *Requests
	Records  *Records
	Votes    *Votes
	Edits    *Edits
	Grants   *Grants
	Freezer  *Freezer

	open openRequests
	now  func() time.Time
	log  *slog.Logger
	// kick wakes Run for an earlier deadline; stopping is closed when Run ends.
	kick     chan struct{}
	stopping chan struct{}
	started  atomic.Bool
}

// NewDesk returns a desk with the state of the store: pending and allowed records, live grants,
// and the freeze.
func NewDesk(cfg Config) (*Desk, error) {
	if cfg.Store == nil || cfg.Judge == nil {
		return nil, errors.New("approval: a desk needs a store and a judge")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	// The times are in UTC and in microseconds, as in a store.
	now := func() time.Time { return cfg.Now().UTC().Truncate(time.Microsecond) }
	limits, kick, stopping := cfg.Limits.withDefaults(), make(chan struct{}, 1), make(chan struct{})
	open := newRequestsInMemory(limits, deadline.New(kick), now)
	freezer := &Freezer{store: cfg.Store, guard: cfg.Guard, now: now}
	grants := newGrants(cfg.Store, cfg.Judge, freezer, limits, deadline.New(kick), now)
	records := &Records{store: cfg.Store, judge: cfg.Judge, open: open, feed: &feed{changed: make(chan struct{})}, now: now, stopping: stopping}
	if err := load(context.Background(), records, open, grants, freezer); err != nil {
		return nil, fmt.Errorf("loading approvals: %w", err)
	}
	return &Desk{
		Requests: &Requests{store: cfg.Store, records: records, open: open, grants: grants, freezer: freezer, limits: limits, log: cfg.Log, stopping: stopping},
		Records:  records,
		Votes:    &Votes{records: records, grants: grants, judge: cfg.Judge, limits: limits},
		Edits:    &Edits{records: records, judge: cfg.Judge, limits: limits},
		Grants:   grants,
		Freezer:  freezer,
		open:     open, now: now, log: cfg.Log, kick: kick, stopping: stopping,
	}, nil
}

func load(ctx context.Context, records *Records, open *requestsInMemory, grants *Grants, freezer *Freezer) error {
	frozen, err := records.store.Freeze(ctx)
	if err != nil {
		return err
	}
	freezer.state.Store(frozen)
	if err := records.each(ctx, Filter{Traits: Traits{States: []State{Pending, Allowed}}}, open.load); err != nil {
		return err
	}
	if err := records.each(ctx, Filter{Since: records.now().Add(-rateWindow)}, func(rec Record) error {
		open.quota.recall(rec)
		return nil
	}); err != nil {
		return err
	}
	return grants.load(ctx)
}

// load adds a stored record at the start.
func (m *requestsInMemory) load(rec Record) error {
	e := &entry{id: rec.ID, rec: rec, key: keyOfRecord(rec), run: runOf(rec), ready: make(chan struct{}), delivered: make(chan struct{}), counted: rec.State == Pending}
	close(e.ready)
	e.markDelivered()
	m.addLocked(e)
	if e.counted {
		m.quota.add(e.run)
	}
	m.due.Set(rec.ID, rec.deadline())
	return nil
}

// load adds the open grants of the store at the start.
func (s *Grants) load(ctx context.Context) error {
	f := GrantFilter{Open: true, PageSize: MaxPage}
	for {
		page, next, err := s.store.Grants(ctx, f)
		if err != nil {
			return err
		}
		for _, g := range page {
			s.book.put(g)
			s.due.Set(g.ID, s.book.ends(g))
		}
		if f.PageToken = next; next == "" {
			return nil
		}
	}
}

// Run processes deadlines: it expires pending and allowed records, ends grants and idle
// sessions, and sleeps until the next deadline. It returns nil when ctx ends; waiting calls
// then get reason.ShuttingDown, and their records stay pending for the next start. It may be
// called once.
func (d *Desk) Run(ctx context.Context) error {
	if d.started.Swap(true) {
		return errors.New("approval: the desk runs or ran already")
	}
	defer close(d.stopping)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.kick:
		case <-timer.C:
		}
		timer.Reset(d.sweep(ctx))
	}
}

// Counts are the numbers of pending records and standing grants.
type Counts struct {
	// Pending is the number of records that wait for votes.
	Pending int
	// Grants is the number of standing grants.
	Grants int
}

// Counts returns the current numbers without reading the store.
func (d *Desk) Counts() Counts {
	c := Counts{Grants: d.Grants.count()}
	d.open.each(func(rec *Record) {
		if rec.State == Pending {
			c.Pending++
		}
	})
	return c
}

func (s *Grants) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.book.byID)
}

func newRequestsInMemory(limits Limits, due *deadline.Queue, now func() time.Time) *requestsInMemory {
	return &requestsInMemory{
		limits: limits, now: now, key: keyOf, byID: map[string]*entry{}, byCall: map[callKey][]*entry{},
		quota: &quota{
			limits: limits, perRun: map[runKey]int{}, principal: map[access.Principal]int{},
			created: map[runKey][]time.Time{}, perPrincipal: map[access.Principal][]time.Time{},
		},
		cool: &cooldown{span: limits.Cooldown, asks: map[coolKey]Record{}}, due: due,
	}
}

func newGrants(store Store, judge Judge, freezer *Freezer, limits Limits, due *deadline.Queue, now func() time.Time) *Grants {
	book := &grantBook{
		idle: limits.SessionIdle, byID: map[string]Grant{}, byOwner: map[access.Principal][]string{},
		seen: map[string]time.Time{}, perSession: map[string]int{}, minting: map[string]bool{},
	}
	return &Grants{store: store, judge: judge, freezer: freezer, limits: limits, now: now, book: book, due: due}
}

// recall counts a record that was created before the start. Records come newest first; the
// window needs the oldest first.
func (q *quota) recall(rec Record) {
	run := runOf(rec)
	q.created[run] = append([]time.Time{rec.CreatedAt}, q.created[run]...)
	q.perPrincipal[run.principal] = append([]time.Time{rec.CreatedAt}, q.perPrincipal[run.principal]...)
}
