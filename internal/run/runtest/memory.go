// Package runtest has an in-memory run.Store, and the conformance suite of run stores.
package runtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/evidence/journal/journaltest"
	"palyra/internal/run"
)

// Memory is an in-memory run.Store. Its writes are atomic, as the interface requires.
type Memory struct {
	journaltest.Memory
	rows map[string]run.Record
	// began are the starts by run.
	began map[string]run.Beginning
	// Kept is how many events Recent can return.
	Kept int
	// fail, if set, is called before each write and may fail it.
	fail func(run.Write) error
}

var _ run.Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{rows: make(map[string]run.Record), began: make(map[string]run.Beginning), Kept: 1024}
}

// FailWith sets or clears the function that may fail writes.
func (s *Memory) FailWith(fail func(run.Write) error) {
	s.Lock()
	defer s.Unlock()
	s.fail = fail
}

// write appends, with the lock held.
func (s *Memory) write(w run.Write) (at time.Time, err error) {
	if s.fail != nil {
		if err := s.fail(w); err != nil {
			return at, err
		}
	}
	for _, b := range w.Blobs {
		if len(b) > call.MaxBlob {
			return at, reason.Errorf(reason.InputTooLarge, "a blob of %d bytes", len(b))
		}
	}
	return s.Write(w.Drafts, w.Blobs)
}

// Head returns the head of the newest event.
func (s *Memory) Head() journal.Head {
	s.Lock()
	defer s.Unlock()
	return s.Last()
}

// Recent returns the events after a sequence number, if it has all of them.
func (s *Memory) Recent(after int64) ([]journal.Event, bool) {
	all := s.All()
	if after < int64(len(all)-s.Kept) || after > int64(len(all)) {
		return nil, false
	}
	return all[after:], true
}

// Started returns the run with the principal's key.
func (s *Memory) Started(_ context.Context, b run.Beginning) (run.Record, bool, error) {
	s.Lock()
	defer s.Unlock()
	return s.started(b)
}

// started is Started with the lock held.
func (s *Memory) started(b run.Beginning) (run.Record, bool, error) {
	for id, was := range s.began {
		r := s.rows[id]
		if b.Key == "" || was.Key != b.Key || was.Record.Principal != b.Record.Principal || s.Time().Sub(r.StartedAt) > call.ClaimLife {
			continue
		}
		if was.Digest != b.Digest {
			return run.Record{}, false, reason.Errorf(reason.IdempotencyMismatch, "another run")
		}
		return r, true, nil
	}
	return run.Record{}, false, nil
}

// Begin stores a new run, or finds the one with its key.
func (s *Memory) Begin(_ context.Context, b run.Beginning) (run.Record, bool, error) {
	s.Lock()
	defer s.Unlock()
	if r, found, err := s.started(b); found || err != nil {
		return r, false, err
	}
	at, err := s.write(b.Write)
	if err != nil {
		return run.Record{}, false, err
	}
	r := b.Record
	r.StartedAt = at
	s.rows[r.ID], s.began[r.ID] = r, b
	return r, true, nil
}

// Append makes events durable.
func (s *Memory) Append(_ context.Context, w run.Write) error {
	s.Lock()
	defer s.Unlock()
	_, err := s.write(w)
	return err
}

// End stores the end of a run.
func (s *Memory) End(_ context.Context, r run.Record, w run.Write) (run.Record, error) {
	s.Lock()
	defer s.Unlock()
	if was, err := s.get(r.ID); err != nil {
		return r, err
	} else if was.State != run.Running {
		return r, reason.Errorf(reason.RunEnded, "run %s has ended already", r.ID)
	}
	at, err := s.write(w)
	if err != nil {
		return r, err
	}
	r.EndedAt = at
	s.rows[r.ID] = r
	return r, nil
}

// Get returns a run.
func (s *Memory) Get(_ context.Context, id string) (run.Record, error) {
	s.Lock()
	defer s.Unlock()
	return s.get(id)
}

func (s *Memory) get(id string) (run.Record, error) {
	if r, ok := s.rows[id]; ok {
		return r, nil
	}
	return run.Record{}, reason.Errorf(reason.NotFound, "run %s does not exist", id)
}

// List returns a page of runs, newest first.
func (s *Memory) List(_ context.Context, f run.Filter) (page []run.Record, next string, err error) {
	s.Lock()
	defer s.Unlock()
	for _, r := range s.rows {
		if selects(f, r) {
			page = append(page, r)
		}
	}
	slices.SortFunc(page, func(a, b run.Record) int { return strings.Compare(b.ID, a.ID) })
	if size := run.PageSize(f.PageSize); len(page) > size {
		page, next = page[:size], page[size-1].ID
	}
	return page, next, nil
}

func selects(f run.Filter, r run.Record) bool {
	of := func(p access.Principal) bool {
		return p.IsZero() || p == r.Principal || p.Kind == access.KindUser && p == r.OnBehalfOf
	}
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) && of(f.Principal) && of(f.Of) &&
		(f.Session == "" || f.Session == r.Session) && (f.PageToken == "" || r.ID < f.PageToken) &&
		!r.StartedAt.Before(f.Since) && (f.Until.IsZero() || r.StartedAt.Before(f.Until))
}

// Codes lists the journal's codes for a run.
func (s *Memory) Codes(id string) (codes []event.Code) {
	for _, e := range s.All() {
		if e.Run == id {
			codes = append(codes, e.Code)
		}
	}
	return codes
}

// Text returns all stored payloads, blobs and rows.
func (s *Memory) Text() string {
	var b strings.Builder
	for _, e := range s.All() {
		b.Write(e.Payload)
	}
	s.Lock()
	defer s.Unlock()
	for _, blob := range s.Blobs() {
		b.Write(blob)
	}
	for _, r := range s.rows {
		b.WriteString(r.Message + r.Detail)
	}
	return b.String()
}
