package sqlitetest

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

// Faulty is part of a test's store whose writes can fail.
type Faulty struct {
	DB *sqlite.DB
	t  testing.TB

	mu   sync.Mutex
	fail error
	next []error
}

// NewFaulty opens an empty store, as Open does.
func NewFaulty(t testing.TB) *Faulty {
	t.Helper()
	return &Faulty{DB: Open(t), t: t}
}

// Fail makes every write fail with err; nil stops that.
func (f *Faulty) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// FailNext makes the next write fail with err. Each call makes one more write fail.
func (f *Faulty) FailNext(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, err)
}

// Write calls write, or returns the error that Fail or FailNext set.
func (f *Faulty) Write(write func() error) error {
	f.mu.Lock()
	err := f.fail
	if len(f.next) > 0 {
		err, f.next = f.next[0], f.next[1:]
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return write()
}

// Edit changes rows directly, like an attacker with write access to the store's file.
func (f *Faulty) Edit(edit func(*sqlite.Tx) error) {
	f.t.Helper()
	must.Get(f.DB.Commit(context.Background(), sqlite.Unit{Check: edit}))(f.t)
}

// Events returns the journaled events in order.
func (f *Faulty) Events() (all []journal.Event) {
	f.t.Helper()
	must.Check(f.t, f.DB.Scan(context.Background(), 0, f.DB.Head().Seq, func(e *journal.Event) error {
		one := *e
		one.Payload = bytes.Clone(e.Payload) // the buffer is used for the next event
		all = append(all, one)
		return nil
	}))
	return all
}

// Codes returns the codes of the journaled events in order.
func (f *Faulty) Codes() (codes []event.Code) {
	for _, e := range f.Events() {
		codes = append(codes, e.Code)
	}
	return codes
}
