package vault

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Limits of leases.
const (
	// MaxLeases is the maximum number of leases.
	MaxLeases = 10_000
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
)

// Lease allows a call to use a value for a limited time.
type Lease struct {
	// ID is a ULID.
	ID      string
	Ref     Ref
	Version int
	// Holder is the caller.
	Holder access.Principal
	// Call or Run is the call or run with which the lease ends, at the latest at Until.
	Call, Run string
	At, Until time.Time
	// Uses is how often the value was read.
	Uses int
}

// Borrower is the prospective user of a secret.
type Borrower struct {
	access.Caller
	// Skill is the skill whose guest makes the call, "" for other calls.
	Skill string
}

// LeaseRequest is a request for a lease.
type LeaseRequest struct {
	Ref Ref
	// Call or Run is the id of the call or run that uses the secret; one of them is required.
	Call, Run string
	// Until is the end of the lease; it is limited by MaxLease and the secret's expiry.
	Until time.Time
	// Over, unless nil, is called once when the lease has ended, for any reason. It must not block.
	Over func()
}

// Leases are the active leases, in memory alone: a restart ends them all. It is safe for concurrent
// use.
type Leases struct {
	guard guard
	// store journals uses and ends.
	store Store
	now   func() time.Time
	// mu guards held.
	mu   sync.Mutex
	held map[string]*Handle
	// cuts counts the causes that end leases: removed secrets, and holders that lost permissions.
	cuts atomic.Int64
	// wake signals Run that the next end may have changed.
	wake chan struct{}
}

func newLeases(g guard, store Store, now func() time.Time) *Leases {
	return &Leases{guard: g, store: store, now: now, held: map[string]*Handle{}, wake: make(chan struct{}, 1)}
}

// Handle returns the value of a lease while the lease is active.
type Handle struct {
	leases *Leases
	// mu guards the following fields.
	mu    sync.Mutex
	lease Lease
	value []byte
	// told contains the purposes whose use was journaled.
	told map[string]bool
	over func()
}

func (l *Leases) newLease(caller access.Caller, q LeaseRequest) (Lease, error) {
	now := l.now().UTC().Truncate(time.Microsecond)
	switch {
	case q.Call == "" && q.Run == "":
		return Lease{}, reason.Errorf(reason.InvalidInput, "a lease requires a call or a run")
	case !q.Until.After(now):
		return Lease{}, reason.Errorf(reason.InvalidInput, "the end of the lease of %s has passed", q.Ref)
	case l.count() >= MaxLeases:
		return Lease{}, reason.Errorf(reason.QuotaExceeded, "the limit of %d leases is reached", MaxLeases)
	}
	return Lease{
		ID: ulid.Make().String(), Ref: q.Ref, Holder: caller.Principal, Call: q.Call, Run: q.Run, At: now,
		Until: earlier(q.Until, now.Add(MaxLease)).UTC().Truncate(time.Microsecond),
	}, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Lease returns the lease of the handle.
func (h *Handle) Lease() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// Value returns the value, which the caller clears. purpose describes the use, such as the
// receiving host, and is journaled the first time. An ended lease returns an error.
func (h *Handle) Value(ctx context.Context, purpose string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.value == nil || !h.leases.now().Before(h.lease.Until) {
		return nil, over(h.lease)
	}
	if !h.told[purpose] {
		e, err := draft(ctx, event.SecretUsed, h.lease.Holder, h.lease.Ref, usedEvent{
			Lease: h.lease.ID, Scope: h.lease.Ref.Scope, Key: h.lease.Ref.Key, Version: h.lease.Version, For: purpose, CallID: h.lease.Call, RunID: h.lease.Run,
		})
		if err == nil {
			err = h.leases.store.Journal(context.WithoutCancel(ctx), e)
		}
		if err != nil {
			return nil, err
		}
		h.told[purpose] = true
	}
	h.lease.Uses++
	return slices.Clone(h.value), nil
}

func over(l Lease) error {
	return reason.Errorf(reason.NotFound, "the lease of %s has ended", l.Ref)
}

// End ends the lease; it may be called twice.
func (h *Handle) End(ctx context.Context) error { return h.end(ctx, "returned") }

// end removes the value even if the event cannot be written.
func (h *Handle) end(ctx context.Context, why string) error {
	h.mu.Lock()
	ended := h.value == nil
	clear(h.value)
	h.value = nil
	l := h.lease
	h.mu.Unlock()
	if ended {
		return nil
	}
	h.leases.drop(l.ID)
	if h.over != nil {
		h.over()
	}
	e, err := draft(ctx, event.SecretLeaseEnded, l.Holder, l.Ref, endedEvent{
		Lease: l.ID, Scope: l.Ref.Scope, Key: l.Ref.Key, Uses: l.Uses, Why: why, CallID: l.Call, RunID: l.Run,
	})
	if err != nil {
		return err
	}
	return h.leases.store.Journal(access.Precede(context.WithoutCancel(ctx), access.PrecedenceEnding), e)
}

func (l *Leases) end(ctx context.Context, why string, which func(Lease) bool) error {
	var errs []error
	for _, h := range l.all() {
		if which(h.Lease()) {
			errs = append(errs, h.end(ctx, why))
		}
	}
	return errors.Join(errs...)
}

// revoke ends leases, including those that are being created.
func (l *Leases) revoke(ctx context.Context, why string, which func(Lease) bool) error {
	l.cuts.Add(1)
	return l.end(ctx, why, which)
}

// List returns the active leases of the caller and of secrets that the caller may list.
func (l *Leases) List(caller access.Caller) ([]Lease, error) {
	if caller.Principal.IsZero() {
		return nil, l.guard.may(caller, access.PermVaultList, Ref{})
	}
	var list []Lease
	now := l.now()
	for _, h := range l.all() {
		if one := h.Lease(); now.Before(one.Until) && (one.Holder == caller.Principal || l.guard.may(caller, access.PermVaultList, one.Ref) == nil) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Lease) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Run ends leases when they expire, and all of them when ctx ends. It passes errors to failed: only
// the event of an end can be lost.
func (l *Leases) Run(ctx context.Context, failed func(error)) error {
	for l.await(ctx) {
		now := l.now()
		if err := l.end(ctx, "time", func(one Lease) bool { return !now.Before(one.Until) }); err != nil {
			failed(err)
		}
	}
	if err := l.end(ctx, "stopped", func(Lease) bool { return true }); err != nil {
		failed(err)
	}
	return nil
}

// await waits for the end of a lease, or for a new lease; false if ctx ends.
func (l *Leases) await(ctx context.Context) bool {
	var due <-chan time.Time
	if next, ok := l.next(); ok {
		timer := time.NewTimer(next.Sub(l.now()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
	case <-due:
	}
	return true
}

// cut limits the leases of a secret to the secret's end.
func (l *Leases) cut(ref Ref, end time.Time) {
	l.cuts.Add(1)
	for _, h := range l.all() {
		h.mu.Lock()
		if h.lease.Ref == ref {
			h.lease.Until = earlier(h.lease.Until, end)
		}
		h.mu.Unlock()
	}
	l.again()
}

func (l *Leases) add(h *Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[h.lease.ID] = h
	l.again()
}

// again makes Run compute the next end again.
func (l *Leases) again() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Leases) drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

func (l *Leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

func (l *Leases) all() []*Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Handle, 0, len(l.held))
	for _, h := range l.held {
		list = append(list, h)
	}
	return list
}

// next returns when the next lease ends.
func (l *Leases) next() (at time.Time, ok bool) {
	for _, h := range l.all() {
		if until := h.Lease().Until; !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}
