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

// leases are the active leases, in memory alone: a restart ends them all.
type leases struct {
	mu   sync.Mutex
	held map[string]*Handle
	// cuts counts the causes that end leases: removed secrets, and holders that lost permissions.
	cuts atomic.Int64
	// wake signals Run that the next end may have changed.
	wake chan struct{}
}

func newLeases() *leases { return &leases{held: map[string]*Handle{}, wake: make(chan struct{}, 1)} }

// Handle returns the value of a lease while the lease is active.
type Handle struct {
	service *Service
	// mu guards the following fields.
	mu    sync.Mutex
	lease Lease
	value []byte
	// told contains the purposes whose use was journaled.
	told map[string]bool
	over func()
}

// Lease lends the newest value of a secret to a caller's call. The handle returns it until the call
// or the run ends.
func (s *Service) Lease(ctx context.Context, b Borrower, q LeaseRequest) (*Handle, error) {
	if err := q.Ref.check(); err != nil {
		return nil, err
	}
	if err := s.mayBorrow(b, access.PermSecretLease, q.Ref); err != nil {
		return nil, err
	}
	var h *Handle
	err := again(q.Ref, func() (err error) {
		h, err = s.lease(ctx, b.Caller, q)
		return err
	})
	return h, err
}

func (s *Service) lease(ctx context.Context, caller access.Caller, q LeaseRequest) (*Handle, error) {
	l, err := s.newLease(caller, q)
	if err != nil {
		return nil, err
	}
	before := s.leases.cuts.Load()
	value, _, err := s.read(ctx, q.Ref, 0, func(m Secret, version int) (event.Draft, error) {
		l.Version = version
		if !m.ExpiresAt.IsZero() {
			l.Until = earlier(l.Until, m.ExpiresAt)
		}
		return draft(ctx, event.SecretLeased, l.Holder, l.Ref, leasedEvent{
			Lease: l.ID, Scope: l.Ref.Scope, Key: l.Ref.Key, Version: version, CallID: l.Call, RunID: l.Run, Until: l.Until,
		})
	})
	if err != nil {
		return nil, err
	}
	h := &Handle{service: s, lease: l, value: value, told: map[string]bool{}, over: q.Over}
	s.leases.add(h)
	// A cut since the read may concern this lease, which did not exist at the time of the cut.
	if s.leases.cuts.Load() != before {
		return nil, errors.Join(ErrChanged, h.end(ctx, "returned"))
	}
	return h, nil
}

func (s *Service) newLease(caller access.Caller, q LeaseRequest) (Lease, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	switch {
	case q.Call == "" && q.Run == "":
		return Lease{}, reason.Errorf(reason.InvalidInput, "a lease requires a call or a run")
	case !q.Until.After(now):
		return Lease{}, reason.Errorf(reason.InvalidInput, "the end of the lease of %s has passed", q.Ref)
	case s.leases.count() >= MaxLeases:
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
	if h.value == nil || !h.service.now().Before(h.lease.Until) {
		return nil, h.service.over(h.lease)
	}
	if !h.told[purpose] {
		e, err := draft(ctx, event.SecretUsed, h.lease.Holder, h.lease.Ref, usedEvent{
			Lease: h.lease.ID, Scope: h.lease.Ref.Scope, Key: h.lease.Ref.Key, Version: h.lease.Version, For: purpose, CallID: h.lease.Call, RunID: h.lease.Run,
		})
		if err == nil {
			err = h.service.store.Journal(context.WithoutCancel(ctx), e)
		}
		if err != nil {
			return nil, err
		}
		h.told[purpose] = true
	}
	h.lease.Uses++
	return slices.Clone(h.value), nil
}

func (s *Service) over(l Lease) error {
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
	h.service.leases.drop(l.ID)
	if h.over != nil {
		h.over()
	}
	e, err := draft(ctx, event.SecretLeaseEnded, l.Holder, l.Ref, endedEvent{
		Lease: l.ID, Scope: l.Ref.Scope, Key: l.Ref.Key, Uses: l.Uses, Why: why, CallID: l.Call, RunID: l.Run,
	})
	if err != nil {
		return err
	}
	return h.service.store.Journal(access.Precede(context.WithoutCancel(ctx), access.PrecedenceEnding), e)
}

func (s *Service) end(ctx context.Context, why string, which func(Lease) bool) error {
	var errs []error
	for _, h := range s.leases.all() {
		if which(h.Lease()) {
			errs = append(errs, h.end(ctx, why))
		}
	}
	return errors.Join(errs...)
}

// EndOf ends the leases of a caller's calls and runs. It is called when the caller has lost
// permissions or a credential, or has another owner. The caller's active calls must request new
// leases.
func (s *Service) EndOf(ctx context.Context, holder access.Principal) error {
	if holder.Kind == access.KindAgent {
		s.placed.changedIn(holder.String())
	}
	s.leases.cuts.Add(1)
	return s.end(ctx, "holder", func(l Lease) bool { return l.Holder == holder })
}

// Leases returns the active leases of the caller and of secrets that the caller may list.
func (s *Service) Leases(caller access.Caller) ([]Lease, error) {
	if caller.Principal.IsZero() {
		return nil, s.may(caller, access.PermVaultList, Ref{})
	}
	var list []Lease
	now := s.now()
	for _, h := range s.leases.all() {
		if l := h.Lease(); now.Before(l.Until) && (l.Holder == caller.Principal || s.may(caller, access.PermVaultList, l.Ref) == nil) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Lease) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Run ends leases when they expire, and all of them when ctx ends. It passes errors to failed: only
// the event of an end can be lost.
func (s *Service) Run(ctx context.Context, failed func(error)) error {
	for s.await(ctx) {
		now := s.now()
		if err := s.end(ctx, "time", func(l Lease) bool { return !now.Before(l.Until) }); err != nil {
			failed(err)
		}
	}
	if err := s.end(ctx, "stopped", func(Lease) bool { return true }); err != nil {
		failed(err)
	}
	return nil
}

// await waits for the end of a lease, or for a new lease; false if ctx ends.
func (s *Service) await(ctx context.Context) bool {
	var due <-chan time.Time
	if next, ok := s.leases.next(); ok {
		timer := time.NewTimer(next.Sub(s.now()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.leases.wake:
	case <-due:
	}
	return true
}

// cut limits the leases of a secret to the secret's end.
func (s *Service) cut(ref Ref, end time.Time) {
	s.leases.cuts.Add(1)
	for _, h := range s.leases.all() {
		h.mu.Lock()
		if h.lease.Ref == ref {
			h.lease.Until = earlier(h.lease.Until, end)
		}
		h.mu.Unlock()
	}
	s.leases.again()
}

func (l *leases) add(h *Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[h.lease.ID] = h
	l.again()
}

// again makes Run compute the next end again.
func (l *leases) again() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *leases) drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

func (l *leases) all() []*Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Handle, 0, len(l.held))
	for _, h := range l.held {
		list = append(list, h)
	}
	return list
}

// next returns when the next lease ends.
func (l *leases) next() (at time.Time, ok bool) {
	for _, h := range l.all() {
		if until := h.Lease().Until; !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}
