// Package vaulttest has in-memory implementations of a vault's store and keys for tests, and the
// conformance suite of vault.Store.
package vaulttest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
)

// Store is an in-memory vault.Store that records its events.
type Store struct {
	// OnUse is called after a use was recorded; may be nil.
	OnUse func()

	mu      sync.Mutex
	records map[vault.Ref]vault.Record
	exports []vault.Exported
	events  []event.Draft
	fail    error
}

var _ vault.Store = (*Store)(nil)

// NewStore returns an empty store.
func NewStore() *Store { return &Store{records: map[vault.Ref]vault.Record{}} }

// Fail makes every method with an event fail with err; nil stops that.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Events returns the journaled events.
func (s *Store) Events() []event.Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Edit changes a record directly.
func (s *Store) Edit(ref vault.Ref, edit func(*vault.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := copied(s.records[ref])
	edit(&r)
	s.records[ref] = r
}

func copied(r vault.Record) vault.Record {
	r.Metadata, r.Seal, r.Versions = bytes.Clone(r.Metadata), bytes.Clone(r.Seal), slices.Clone(r.Versions)
	for i, v := range r.Versions {
		r.Versions[i].Key, r.Versions[i].Box = bytes.Clone(v.Key), bytes.Clone(v.Box)
	}
	return r
}

// Record implements vault.Store.
func (s *Store) Record(_ context.Context, ref vault.Ref) (vault.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[ref]
	if !ok {
		return vault.Record{}, vault.NoSuchSecret(ref)
	}
	return s.journaled(r), nil
}

// journaled returns a copy of a record with its newest journaled state.
func (s *Store) journaled(r vault.Record) vault.Record {
	r = copied(r)
	for _, e := range s.events {
		if e.Subject == r.Ref.String() && (e.Code == event.SecretPut || e.Code == event.SecretRemoved || e.Code == event.SecretEnded) {
			r.Last = vault.LastEvent{Code: e.Code, Payload: e.Payload}
		}
	}
	return r
}

// Tell changes the journaled events directly.
func (s *Store) Tell(edit func(*event.Draft)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.events {
		edit(&s.events[i])
	}
}

func compare(a, b vault.Ref) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// Records implements vault.Store.
func (s *Store) Records(_ context.Context, q vault.Query) ([]vault.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []vault.Record
	for ref, r := range s.records {
		if q.Scope != "" && ref.Scope != q.Scope || compare(ref, q.After) <= 0 || q.Placed && !r.Placed {
			continue
		}
		r = s.journaled(r)
		r.Versions = slices.DeleteFunc(r.Versions, func(v vault.Version) bool { return v.Number != r.Newest })
		for i := range r.Versions {
			r.Versions[i].Box = nil
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b vault.Record) int { return compare(a.Ref, b.Ref) })
	return list[:min(len(list), q.Limit)], nil
}

// PutRecord implements vault.Store.
func (s *Store) PutRecord(_ context.Context, r vault.Record, old []byte, e event.Draft) error {
	return s.change(e, func() error {
		was := s.records[r.Ref]
		if !bytes.Equal(was.Seal, old) {
			return vault.ErrChanged
		}
		r = copied(r)
		r.LastUsed = was.LastUsed
		for i, v := range r.Versions {
			if v.Box != nil {
				continue
			}
			at := slices.IndexFunc(was.Versions, func(o vault.Version) bool { return o.Number == v.Number })
			if at >= 0 {
				r.Versions[i] = was.Versions[at]
			}
		}
		s.records[r.Ref] = r
		return nil
	})
}

// UseRecord implements vault.Store.
func (s *Store) UseRecord(_ context.Context, ref vault.Ref, seal []byte, e event.Draft) error {
	err := s.change(e, func() error {
		if r, ok := s.records[ref]; !ok || !bytes.Equal(r.Seal, seal) {
			return vault.ErrChanged
		}
		return nil
	})
	if s.OnUse != nil {
		s.OnUse()
	}
	return err
}

// RemoveRecord implements vault.Store.
func (s *Store) RemoveRecord(_ context.Context, ref vault.Ref, e event.Draft) error {
	return s.change(e, func() error {
		if _, ok := s.records[ref]; !ok {
			return vault.NoSuchSecret(ref)
		}
		delete(s.records, ref)
		return nil
	})
}

// KeepExport implements vault.Store.
func (s *Store) KeepExport(_ context.Context, keks []string, e event.Draft) error {
	return s.change(e, func() error {
		for _, id := range keks {
			s.exports = slices.DeleteFunc(s.exports, func(x vault.Exported) bool { return x.KEK == id })
			s.exports = append(s.exports, vault.Exported{KEK: id, At: time.Now()})
		}
		return nil
	})
}

// Exports implements vault.Store.
func (s *Store) Exports(context.Context) ([]vault.Exported, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.exports), nil
}

// Journal implements vault.Store.
func (s *Store) Journal(_ context.Context, e event.Draft) error {
	return s.change(e, func() error { return nil })
}

func (s *Store) change(e event.Draft, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if err := do(); err != nil {
		return err
	}
	s.events = append(s.events, e)
	return nil
}

// StaleBoxes implements vault.Boxes.
func (s *Store) StaleBoxes(_ context.Context, current string, after vault.Box, limit int) ([]vault.Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []vault.Box
	for ref, r := range s.records {
		for _, v := range r.Versions {
			b := vault.Box{About: vault.About(ref, v.Number), KEK: v.KEK, Key: bytes.Clone(v.Key)}
			if v.KEK != current && order(b, after) > 0 {
				list = append(list, b)
			}
		}
	}
	slices.SortFunc(list, order)
	return list[:min(len(list), limit)], nil
}

func order(a, b vault.Box) int {
	return cmp.Or(cmp.Compare(a.KEK, b.KEK), cmp.Compare(a.About, b.About))
}

// ReplaceBoxes implements vault.Boxes.
func (s *Store) ReplaceBoxes(_ context.Context, old, fresh []vault.Box) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	for i, b := range fresh {
		ref, number, err := vault.ParseAbout(b.About)
		if err != nil {
			return reason.Errorf(reason.Internal, "%w", err)
		}
		r := copied(s.records[ref])
		for j, v := range r.Versions {
			if v.Number == number && v.KEK == old[i].KEK && bytes.Equal(v.Key, old[i].Key) {
				r.Versions[j].KEK, r.Versions[j].Key = b.KEK, bytes.Clone(b.Key)
				s.records[ref] = r
			}
		}
	}
	return nil
}
