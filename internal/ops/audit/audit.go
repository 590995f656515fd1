// Package audit journals refusals and exports.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

const (
	// auditPeriod is how long refusals of one kind are counted before they become one event.
	auditPeriod = time.Minute
	// mostKinds bounds the memory for refusals of members: further kinds are counted together.
	mostKinds = 1024
)

// Journal stores refusals and exports.
type Journal interface {
	Append(ctx context.Context, drafts ...event.Draft) ([]journal.Event, error)
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Auditor journals methods as the access table requires. Refusals are coalesced, so that external
// clients cannot fill the journal.
type Auditor struct {
	log     *slog.Logger
	journal Journal

	mu sync.Mutex
	// refused counts the refusals of members, strangers the refusals of callers without a
	// credential.
	refused   map[refusal]*refusals
	strangers strangers
	looks     map[lookKind]*looks
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
	// Source is "" in the event about all sources without their own event; Sources is the number
	// of these sources.
	Source  string `json:"source,omitempty"`
	Sources int    `json:"sources,omitempty"`
	// Procedure and Reason are the most frequent combination in the refusals of a source without a
	// credential. Kinds is the number of its combinations.
	Procedure string    `json:"procedure,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Kinds     int       `json:"kinds,omitempty"`
	Count     int       `json:"count"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

type exported struct {
	Procedure string `json:"procedure"`
	DeviceID  string `json:"device_id"`
}

// New returns an auditor that writes to a journal.
func New(log Journal, logger *slog.Logger) *Auditor {
	return &Auditor{log: logger, journal: log, refused: make(map[refusal]*refusals), looks: make(map[lookKind]*looks)}
}

// Refused counts a refusal.
func (a *Auditor) Refused(_ context.Context, source, procedure string, code reason.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := access.ParsePrincipal(source); err != nil {
		a.strangers.add(source, kind{procedure, string(code)}, time.Now().UTC())
		return
	}
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

// Exported journals an export: the caller and the data set.
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

// flush journals the counted refusals. Refusals of known principals are access denials; the others
// have an external source.
func (a *Auditor) flush(ctx context.Context) {
	a.mu.Lock()
	counted, outside, looked := a.refused, a.strangers, a.looks
	a.refused, a.strangers, a.looks = make(map[refusal]*refusals), strangers{}, make(map[lookKind]*looks)
	a.mu.Unlock()
	var drafts []event.Draft
	add := func(code event.Code, actor string, payload any) {
		if draft, err := event.DraftOf(code, actor, "", payload); err == nil {
			drafts = append(drafts, draft)
		}
	}
	for _, r := range outside.events() {
		add(event.CallersRefused, journal.Daemon, r)
	}
	for kind, n := range looked {
		add(event.Looked, kind.by, n.payload(kind))
	}
	for kind, n := range counted {
		add(event.PermissionDenied, kind.source, callersRefused{
			Source: kind.source, Procedure: kind.procedure, Reason: string(kind.code), Count: n.count, First: n.first, Last: n.last,
		})
	}
	if len(drafts) == 0 {
		return
	}
	if _, err := a.journal.Append(ctx, drafts...); err != nil {
		a.log.ErrorContext(ctx, "refusals were not journaled", slog.Int("kinds", len(drafts)), slog.String("error", err.Error()))
	}
}
