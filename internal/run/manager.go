package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/run/model"
)

// Calls passes a call through all stages of the pipeline.
type Calls interface {
	Call(ctx context.Context, s call.Submission, observe func(call.Event)) (call.Outcome, error)
}

// Approvals reads one approval by its id.
type Approvals interface {
	Get(ctx context.Context, id string) (approval.Record, error)
}

// Workspace is a declared workspace as described to the model.
type Workspace struct {
	Name     string
	ReadOnly bool
}

// Limits bound runs.
type Limits struct {
	// Budget is the maximum budget of a run.
	Budget Budget
	// ActivePerPrincipal is how many runs of one principal may be active.
	ActivePerPrincipal int
	// ParallelCalls is how many calls of one turn run in parallel.
	ParallelCalls int
	// AbandonedAfter is the time for which a run waits for the next message after all its clients
	// have disconnected.
	AbandonedAfter time.Duration
}

// Config holds the dependencies of a Manager.
type Config struct {
	Calls Calls
	// Models are keyed by their names in the configuration. If empty, no run can be started.
	Models       map[string]model.Provider
	DefaultModel string
	// Catalog lists the tools that policy could ever allow the caller to call.
	Catalog func(access.Caller) []tool.Descriptor
	// Workspaces are the workspaces that a run can select, the default one first.
	Workspaces []Workspace
	Store      Store
	Approvals  Approvals
	Limits     Limits
	// Admit returns an error if the caller's quota does not allow a message of this size. It may be
	// nil.
	Admit func(c access.Caller, bytes int64) error
	// Log may be nil.
	Log *slog.Logger
}

// Manager starts runs and drives them. It is safe for concurrent use.
type Manager struct {
	Config
	Roster *Roster
	tapes  *tapeCache
}

// New validates the configuration and returns a Manager.
func New(cfg Config) (*Manager, error) {
	l := cfg.Limits
	switch {
	case cfg.Calls == nil || cfg.Catalog == nil || cfg.Store == nil || cfg.Approvals == nil:
		return nil, errors.New("runs need calls, a catalog, a store and approvals")
	case l.Budget.Calls <= 0 || l.Budget.Tokens <= 0 || l.Budget.WallClock <= 0 || l.ActivePerPrincipal <= 0 || l.ParallelCalls <= 0 || l.AbandonedAfter <= 0:
		return nil, errors.New("the limits of runs must be positive")
	case len(cfg.Models) > 0 && cfg.Models[cfg.DefaultModel] == nil:
		return nil, errors.New("the default model is not configured")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{Config: cfg, Roster: newRoster(l.ActivePerPrincipal), tapes: newTapeCache()}, nil
}

// Run admits runs until ctx ends, and then waits for the active runs, which end as interrupted.
// Requests to models end at once, and calls end after drain.
func (m *Manager) Run(ctx context.Context, drain time.Duration) error {
	<-ctx.Done()
	for _, r := range m.Roster.close() {
		r.halt(interrupted())
	}
	late := time.AfterFunc(drain, func() {
		for _, r := range m.Roster.all() {
			r.stop(interrupted())
		}
	})
	defer late.Stop()
	m.Roster.driving.Wait()
	return nil
}

// Attach returns an inbox of an active run for messages of by. The error is RUN_ENDED for an ended
// run and NOT_FOUND for an unknown one.
func (m *Manager) Attach(ctx context.Context, by access.Caller, id string) (Inbox, error) {
	r, err := m.underWay(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.mailbox.attach(by), nil
}

// Say sends a message of by to an active run, and returns the run. The model receives the
// message at its next turn. Unless the message is the last, an interactive run then waits for
// the next message as after a disconnect. Say returns the errors of Attach.
func (m *Manager) Say(ctx context.Context, by access.Caller, id string, p Post) (Record, error) {
	r, err := m.underWay(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if err := r.mailbox.post(ctx, by, p); err != nil {
		return Record{}, err
	}
	return r.snapshot(), nil
}

func (m *Manager) underWay(ctx context.Context, id string) (*active, error) {
	if r := m.Roster.find(id); r != nil {
		return r, nil
	}
	if _, err := m.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	return nil, errEnded()
}

// Get returns a run, or NOT_FOUND.
func (m *Manager) Get(ctx context.Context, id string) (Record, error) {
	record, err := m.Store.Get(ctx, id)
	return m.current(record), err
}

// List returns a page of runs, newest first, and the token of the next page,
// "" after the last.
func (m *Manager) List(ctx context.Context, f Filter) ([]Record, string, error) {
	page, next, err := m.Store.List(ctx, f)
	for i := range page {
		page[i] = m.current(page[i])
	}
	return page, next, err
}

// current adds the usage since the start to a stored record.
func (m *Manager) current(record Record) Record {
	if record.State == Running {
		if r := m.Roster.find(record.ID); r != nil {
			record.Usage = r.snapshot().Usage
		}
	}
	return record
}

// Cancel stops a run and waits until its end is durable. It cancels the request to the model's
// provider, calls that wait for approval, and running calls. The error is RUN_ENDED if the run
// ended for another reason.
func (m *Manager) Cancel(ctx context.Context, by access.Caller, id, why string) (Record, error) {
	if r := m.Roster.find(id); r != nil {
		r.stop(cancelled(by.Principal, why))
		select {
		case <-r.ended:
		case <-ctx.Done():
			return Record{}, ctx.Err()
		}
		if record := r.snapshot(); record.State == Cancelled && record.CancelledBy == by.Principal {
			return record, nil
		}
	}
	record, err := m.Store.Get(ctx, id)
	if err != nil {
		return Record{}, err
	}
	return record, reason.Errorf(reason.RunEnded, "run %s is %s", id, record.State).WithField("state", string(record.State))
}

// EndDevice stops the runs that a device started, when the device was revoked or its member lost
// permissions, and returns their number. They fail with why. It does not wait for their ends.
func (m *Manager) EndDevice(deviceID string, why *reason.Error) int {
	list := slices.DeleteFunc(m.Roster.all(), func(r *active) bool { return r.caller.DeviceID != deviceID })
	for _, r := range list {
		r.stop(failed(why))
	}
	return len(list)
}

// EndSession cancels the runs of a session, by its full id, and waits for their ends.
func (m *Manager) EndSession(ctx context.Context, by access.Caller, sessionID string) error {
	list := slices.DeleteFunc(m.Roster.all(), func(r *active) bool { return r.snapshot().Session != sessionID })
	for _, r := range list {
		r.stop(cancelled(by.Principal, "the session was ended"))
	}
	for _, r := range list {
		select {
		case <-r.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
