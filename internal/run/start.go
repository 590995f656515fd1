package run

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Start starts a run, and returns its record and an inbox. The run is durable when Start
// returns. A retry with the same idempotency key returns the run of the first request.
func (m *Manager) Start(ctx context.Context, caller access.Caller, s Start) (Record, Inbox, error) {
	s, err := m.check(s)
	if err != nil {
		return Record{}, nil, err
	}
	b, err := beginning(caller, s)
	if err != nil {
		return Record{}, nil, err
	}
	// A retry returns its run even if a new run would be refused.
	if known, found, err := m.Store.Started(ctx, b); err != nil || found {
		return m.join(caller, known, err)
	}
	if err := m.admit(caller, s.Message); err != nil {
		return Record{}, nil, err
	}
	r := &active{
		caller: caller, session: cmp.Or(s.Session, b.Record.ID), provider: m.Models[s.Model], record: b.Record, ended: make(chan struct{}),
	}
	r.mailbox = newMailbox(func(ctx context.Context, by access.Caller, text string) error { return m.keep(ctx, r, by, text) })
	all, stop := context.WithCancelCause(context.Background())
	thinking, halt := context.WithCancelCause(all)
	r.halt, r.stop = halt, stop
	if err := m.Roster.enter(r); err != nil {
		return Record{}, nil, err
	}
	// The tape exists before the row, so that any client that finds the row can follow the run.
	r.tape = m.tapes.open(m.Store, b.Record)
	record, fresh, err := m.Store.Begin(ctx, b)
	if err != nil || !fresh {
		m.tapes.remove(r.tape)
		m.Roster.leave(r)
		stop(nil)
		close(r.ended)
		m.Roster.driving.Done()
		return m.join(caller, record, err)
	}
	r.mu.Lock()
	r.record = record
	r.mu.Unlock()
	inbox := r.mailbox.attach(caller)
	go func() {
		defer m.Roster.driving.Done()
		m.drive(all, thinking, r, s.Message)
	}()
	return record, inbox, nil
}

// join returns the existing run to a retry of Start.
func (m *Manager) join(caller access.Caller, record Record, err error) (Record, Inbox, error) {
	if err != nil {
		return Record{}, nil, err
	}
	if r := m.Roster.find(record.ID); r != nil {
		return r.snapshot(), r.mailbox.attach(caller), nil
	}
	return record, endedInbox{}, nil
}

// check sets the defaults of s and validates it.
func (m *Manager) check(s Start) (Start, error) {
	if err := call.CheckClientName("session", s.Session); err != nil {
		return s, err
	}
	if s.Message == "" {
		return s, reason.Errorf(reason.InvalidInput, "message is required: it is the task of the run").WithField("field", "message")
	}
	var err error
	if s.Budget, err = m.budget(s.Budget); err != nil {
		return s, err
	}
	if s.Model == "" {
		s.Model = m.DefaultModel
	}
	if m.Models[s.Model] == nil {
		return s, m.unknownModel(s.Model)
	}
	return m.checkWorkspace(s)
}

func (m *Manager) unknownModel(name string) error {
	names := slices.Sorted(maps.Keys(m.Models))
	if len(names) == 0 {
		return reason.Errorf(reason.UnknownModel, "no model is configured")
	}
	return reason.Errorf(reason.UnknownModel, "the model %q does not exist", name).WithRemedy("%s", text.NearestHelp(name, names))
}

func (m *Manager) checkWorkspace(s Start) (Start, error) {
	if s.Workspace == "" {
		if len(m.Workspaces) > 0 {
			s.Workspace = m.Workspaces[0].Name
		}
		return s, nil
	}
	names := make([]string, len(m.Workspaces))
	for i, w := range m.Workspaces {
		names[i] = w.Name
	}
	if slices.Contains(names, s.Workspace) {
		return s, nil
	}
	e := reason.Errorf(reason.UnknownWorkspace, "the workspace %q does not exist", s.Workspace)
	return s, e.WithRemedy("%s", text.NearestHelp(s.Workspace, names))
}

// budget sets the gateway's defaults and refuses larger values.
func (m *Manager) budget(b Budget) (Budget, error) {
	most := m.Limits.Budget
	for _, part := range []struct {
		field        string
		wanted, most int64
	}{
		{"budget.calls", int64(b.Calls), int64(most.Calls)},
		{"budget.tokens", b.Tokens, most.Tokens},
		{"budget.wall_clock", int64(b.WallClock), int64(most.WallClock)},
	} {
		if part.wanted < 0 || part.wanted > part.most {
			return b, overBudget(part.field, part.most)
		}
	}
	if b.Calls == 0 {
		b.Calls = most.Calls
	}
	if b.Tokens == 0 {
		b.Tokens = most.Tokens
	}
	if b.WallClock == 0 {
		b.WallClock = most.WallClock
	}
	return b, nil
}

func overBudget(field string, most int64) error {
	bound := time.Duration(most).String()
	if field != "budget.wall_clock" {
		bound = strconv.FormatInt(most, 10)
	}
	return reason.Errorf(reason.InvalidInput, "%s must be between 0 and %s", field, bound).WithField("field", field).
		WithRemedy("Use a smaller value, or ask an operator to raise the limit.")
}

// beginning returns the record of a new run. If the client names no session, the run has its
// own session, named by its id. Approvals for the session then apply to this run alone.
func beginning(caller access.Caller, s Start) (Beginning, error) {
	digest, err := startDigest(s)
	if err != nil {
		return Beginning{}, err
	}
	id := ulid.Make().String()
	r := Record{
		ID: id, State: Running,
		Principal: caller.Principal, OnBehalfOf: caller.OnBehalfOf, Device: caller.DeviceID,
		Session: call.SessionID(caller, cmp.Or(s.Session, id)), Model: s.Model, Workspace: s.Workspace,
		Message: text.Clip(tool.RedactText(s.Message), rowMessage), Interactive: s.Interactive, Budget: s.Budget,
	}
	w, err := startedWrite(r, s.Message)
	return Beginning{Record: r, Key: s.IdempotencyKey, Digest: digest, Write: w}, err
}

// startDigest is the digest of the parameters that identify a start.
func startDigest(s Start) (string, error) {
	return canonical.DigestOf(map[string]any{
		"session": s.Session, "message": canonical.Digest([]byte(s.Message)), "model": s.Model, "workspace": s.Workspace,
		"budget": s.Budget, "interactive": s.Interactive,
	})
}

// admit refuses a text above the quota of its author.
func (m *Manager) admit(caller access.Caller, text string) error {
	if m.Admit == nil {
		return nil
	}
	return m.Admit(caller, int64(len(text)))
}

// keep makes a message of the user durable, with its sender.
func (m *Manager) keep(ctx context.Context, r *active, by access.Caller, text string) error {
	if err := m.admit(by, text); err != nil {
		return err
	}
	w, err := messageWrite(r.snapshot(), by.Principal, text)
	if err != nil {
		return err
	}
	return r.tape.write(ctx, w)
}
