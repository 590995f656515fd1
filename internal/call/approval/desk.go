package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
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

// Desk holds the calls that wait for approvals. It is safe for concurrent use.
//
// The store is authoritative: every decision about a record or grant MUST be made inside a unit of
// the store's writer, with its events. The desk's memory is used to wake waiters, to find identical
// asks, and to schedule deadlines; it MUST NOT allow anything.
type Desk struct {
	store  Store
	judge  Judge
	limits Limits
	guard  change.Guard
	clock  func() time.Time
	log    *slog.Logger
	key    func(Ask) callKey

	// kick wakes Run for an earlier deadline; stopping is closed when Run ends.
	kick     chan struct{}
	stopping chan struct{}

	// freezing keeps frozen in the order of the store's units.
	freezing sync.Mutex

	mu      sync.Mutex
	started bool
	open    map[string]*entry
	byCall  map[callKey][]*entry
	quota   *quota
	cool    *cooldown
	grants  *grantBook
	due     *deadlines
	frozen  *FreezeState
	// changed is closed and replaced at every change of a record.
	changed chan struct{}
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
	limits := cfg.Limits.withDefaults()
	d := &Desk{
		store: cfg.Store, judge: cfg.Judge, limits: limits, guard: cfg.Guard, clock: cfg.Now, log: cfg.Log, key: keyOf,
		kick: make(chan struct{}, 1), stopping: make(chan struct{}),
		open: map[string]*entry{}, byCall: map[callKey][]*entry{},
		quota: newQuota(limits), cool: newCooldown(limits.Cooldown), grants: newGrantBook(limits.SessionIdle),
		due: newDeadlines(), changed: make(chan struct{}),
	}
	if err := d.load(context.Background()); err != nil {
		return nil, fmt.Errorf("loading approvals: %w", err)
	}
	return d, nil
}

func (d *Desk) load(ctx context.Context) error {
	frozen, err := d.store.Freeze(ctx)
	if err != nil {
		return err
	}
	d.frozen = frozen
	if err := d.eachRecord(ctx, Filter{Traits: Traits{States: []State{Pending, Allowed}}}, d.loadOpen); err != nil {
		return err
	}
	if err := d.eachRecord(ctx, Filter{Since: d.now().Add(-rateWindow)}, d.loadRate); err != nil {
		return err
	}
	return d.loadGrants(ctx)
}

func (d *Desk) loadOpen(rec Record) error {
	e := &entry{id: rec.ID, rec: rec, key: keyOfRecord(rec), run: runOf(rec), ready: closedChannel(), delivered: make(chan struct{}), counted: rec.State == Pending}
	e.markDelivered()
	d.addLocked(e)
	if e.counted {
		d.quota.add(e.run)
	}
	d.due.set(rec.ID, false, rec.deadline())
	return nil
}

func (d *Desk) loadRate(rec Record) error {
	d.quota.recall(rec)
	return nil
}

func (d *Desk) loadGrants(ctx context.Context) error {
	f := GrantFilter{Open: true, PageSize: MaxPage}
	for {
		page, next, err := d.store.Grants(ctx, f)
		if err != nil {
			return err
		}
		for _, g := range page {
			d.grants.put(g)
			d.due.set(g.ID, true, d.grants.ends(g))
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
	if err := d.start(); err != nil {
		return err
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

func (d *Desk) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started {
		return errors.New("approval: the desk runs or ran already")
	}
	d.started = true
	return nil
}

// Get returns one record, or reason.NotFound.
func (d *Desk) Get(ctx context.Context, id string) (Record, error) {
	rec, err := d.store.Record(ctx, id)
	if err != nil {
		return Record{}, notFound(err, "approval", id)
	}
	return d.live(rec), nil
}

// List returns one page of records, newest first, and the token of the next page.
func (d *Desk) List(ctx context.Context, f Filter) ([]Record, string, error) {
	if err := checkToken(f.PageToken); err != nil {
		return nil, "", err
	}
	page, next, err := d.store.Records(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("listing approvals: %w", err)
	}
	for i := range page {
		page[i] = d.live(page[i])
	}
	return page, next, nil
}

func checkToken(token string) error {
	if token == "" {
		return nil
	}
	if _, err := ulid.ParseStrict(token); err != nil {
		return reason.Errorf(reason.InvalidInput, "the page token is not valid")
	}
	return nil
}

// live sets the fields that only the desk has.
func (d *Desk) live(rec Record) Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	rec = rec.Stored()
	if rec.State != Pending {
		return rec
	}
	if e, ok := d.open[rec.ID]; ok {
		rec.Waiters, rec.Input = len(e.waiters), e.calls[rec.CallDigest].input
	}
	rec.RunGone = rec.Waiters == 0
	return rec
}

// LastAllowed returns the binding of the last approved call of the principal with the tool; the
// bool is false if there was none.
func (d *Desk) LastAllowed(ctx context.Context, p access.Principal, toolName string) (tool.Binding, bool, error) {
	return d.store.LastAllowed(ctx, p, toolName)
}
