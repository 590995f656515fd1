// Package audit journals who was refused and who took a copy of what.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/reason"
)

const (
	// auditPeriod is how long refusals of one kind are counted before they
	// become one event.
	auditPeriod = time.Minute
	// mostKinds bounds the memory: refusals beyond it are counted together.
	mostKinds = 1024
)

// Journal is where refusals and exports are written.
type Journal interface {
	Append(ctx context.Context, drafts ...event.Draft) ([]journal.Event, error)
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Auditor journals what the access table wants journaled. Refusals are
// coalesced, so that nobody can fill the journal from outside.
type Auditor struct {
	log     *slog.Logger
	journal Journal

	mu      sync.Mutex
	refused map[refusal]*refusals
}

type refusal struct {
	source    string
	procedure string
	code      reason.Code
}

type refusals struct {
	count       int
	first, last time.Time
}

type callersRefused struct {
	Source    string      `json:"source"`
	Procedure string      `json:"procedure"`
	Reason    reason.Code `json:"reason"`
	Count     int         `json:"count"`
	First     time.Time   `json:"first"`
	Last      time.Time   `json:"last"`
}

type exported struct {
	Procedure string `json:"procedure"`
	DeviceID  string `json:"device_id"`
}

// New returns an auditor that writes to a journal.
func New(log Journal, logger *slog.Logger) *Auditor {
	return &Auditor{log: logger, journal: log, refused: make(map[refusal]*refusals)}
}

// Refused counts a refusal.
func (a *Auditor) Refused(_ context.Context, source, procedure string, code reason.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := refusal{source, procedure, code}
	seen := a.refused[key]
	if seen == nil && len(a.refused) >= mostKinds {
		key = refusal{"others", "", code}
		seen = a.refused[key]
	}
	now := time.Now().UTC()
	if seen == nil {
		seen = &refusals{first: now}
		a.refused[key] = seen
	}
	seen.count++
	seen.last = now
}

// Exported journals who took a copy of what.
func (a *Auditor) Exported(ctx context.Context, caller access.Caller, procedure string) error {
	return a.journal.Record(ctx, event.Exported, caller.Principal.String(), "", exported{Procedure: procedure, DeviceID: caller.DeviceID})
}

// Run writes the counted refusals once a period, and a last time at the end.
func (a *Auditor) Run(ctx context.Context) error {
	tick := time.NewTicker(auditPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.flush(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
			a.flush(ctx)
		}
	}
}

// flush journals what was counted. Refusals of known principals are access
// denials; the others came from outside.
func (a *Auditor) flush(ctx context.Context) {
	a.mu.Lock()
	counted := a.refused
	a.refused = make(map[refusal]*refusals)
	a.mu.Unlock()
	var drafts []event.Draft
	for kind, n := range counted {
		code, actor := event.CallersRefused, journal.Daemon
		if _, err := access.ParsePrincipal(kind.source); err == nil {
			code, actor = event.PermissionDenied, kind.source
		}
		draft, err := event.DraftOf(code, actor, "", callersRefused{
			Source: kind.source, Procedure: kind.procedure, Reason: kind.code, Count: n.count, First: n.first, Last: n.last,
		})
		if err == nil {
			drafts = append(drafts, draft)
		}
	}
	if len(drafts) == 0 {
		return
	}
	if _, err := a.journal.Append(ctx, drafts...); err != nil {
		a.log.ErrorContext(ctx, "refusals were not journaled", slog.Int("kinds", len(drafts)), slog.String("error", err.Error()))
	}
}
