package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
)

// Get returns one record, or reason.NotFound.
func (r *Records) Get(ctx context.Context, id string) (Record, error) {
	rec, err := r.store.Record(ctx, id)
	if err != nil {
		return Record{}, notFound(err, "approval", id)
	}
	return r.live(rec), nil
}

// List returns one page of records, newest first, and the token of the next page.
func (r *Records) List(ctx context.Context, f Filter) ([]Record, string, error) {
	if err := checkToken(f.PageToken); err != nil {
		return nil, "", err
	}
	page, next, err := r.store.Records(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("listing approvals: %w", err)
	}
	for i := range page {
		page[i] = r.live(page[i])
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

// live sets the fields that are not stored.
func (r *Records) live(rec Record) Record {
	rec = rec.Stored()
	if rec.State != Pending {
		return rec
	}
	if open, ok := r.open.find(rec.ID, rec.CallDigest); ok {
		rec.Waiters, rec.Input = open.waiters, open.input
	}
	rec.RunGone = rec.Waiters == 0
	return rec
}

// Tallies are the numbers of records that a filter selects.
type Tallies struct {
	Total      int64
	ByState    map[State]int64
	BySeverity map[string]int64
	BySubject  map[SubjectType]int64
	ByTool     map[string]int64
}

// Add counts n more records with these traits.
func (t *Tallies) Add(state State, severity string, subject SubjectType, toolName string, n int64) {
	if t.ByState == nil {
		t.ByState, t.BySeverity = map[State]int64{}, map[string]int64{}
		t.BySubject, t.ByTool = map[SubjectType]int64{}, map[string]int64{}
	}
	t.Total += n
	t.ByState[state] += n
	t.BySeverity[severity] += n
	t.BySubject[subject] += n
	t.ByTool[toolName] += n
}

// Tally counts the records that List would list, on all pages.
func (r *Records) Tally(ctx context.Context, f Filter) (Tallies, error) {
	t, err := r.store.Tallied(ctx, f)
	if err != nil {
		return Tallies{}, fmt.Errorf("counting approvals: %w", err)
	}
	return t, nil
}

// Watch calls fn with every record that changes, in the order of revisions, until ctx ends or
// fn returns an error, which it returns. A record that changed several times between two calls
// of fn is passed once, in its newest form.
//
// If after is 0, Watch begins with the records that are pending or allowed. If after is a
// revision that the client received, Watch begins with all later changes. A client that
// reconnects thus misses no change, but may get a record twice.
//
// Watch calls opened, which may be nil, before the first fn. Every change after the call of
// opened is delivered. If opened returns an error, Watch returns it.
func (r *Records) Watch(ctx context.Context, after int64, opened func() error, fn func(Record) error) error {
	resumed := after > 0
	if !resumed {
		var err error
		if after, err = r.store.LastRevision(ctx); err != nil {
			return fmt.Errorf("watching approvals: %w", err)
		}
	}
	if opened != nil {
		if err := opened(); err != nil {
			return err
		}
	}
	if !resumed {
		f := Filter{Traits: Traits{States: []State{Pending, Allowed}}}
		if err := r.each(ctx, f, func(rec Record) error { return fn(r.live(rec)) }); err != nil {
			return err
		}
	}
	for {
		changed := r.feed.next()
		page, err := r.store.Changes(ctx, after, MaxPage)
		if err != nil {
			return fmt.Errorf("watching approvals: %w", err)
		}
		for _, rec := range page {
			if err := fn(r.live(rec)); err != nil {
				return err
			}
			after = rec.Revision
		}
		if len(page) == MaxPage {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.stopping:
			return errStopping()
		case <-changed:
		}
	}
}

// each calls fn with every record that the filter admits.
func (r *Records) each(ctx context.Context, f Filter, fn func(Record) error) error {
	f.PageSize = MaxPage
	for {
		page, next, err := r.store.Records(ctx, f)
		if err != nil {
			return fmt.Errorf("reading approvals: %w", err)
		}
		for _, rec := range page {
			if err := fn(rec); err != nil {
				return err
			}
		}
		if f.PageToken = next; next == "" {
			return nil
		}
	}
}

// List returns one page of grants, newest first, and the token of the next page.
func (s *Grants) List(ctx context.Context, f GrantFilter) ([]Grant, string, error) {
	if err := checkToken(f.PageToken); err != nil {
		return nil, "", err
	}
	page, next, err := s.store.Grants(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("listing grants: %w", err)
	}
	return page, next, nil
}

// Trailer proves that an export is complete.
type Trailer struct {
	// Records is the number of exported records.
	Records int64 `json:"records"`
	// Digest is "sha256:<hex>" over the lines of all records in order: each is the record's RFC
	// 8785 JSON and a newline.
	Digest string `json:"digest"`
	// Revision is the highest revision at the start of the export.
	Revision int64 `json:"revision"`
}

// Line returns the line of a record in an export: its RFC 8785 JSON, without live fields, and a
// newline.
func (r Record) Line() ([]byte, error) {
	text, err := EncodeRecord(r)
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Tally sums up the lines of an export, for the gateway that writes the trailer and the client
// that checks it.
type Tally struct {
	count int64
	sum   hash.Hash
}

// NewTally returns an empty tally.
func NewTally() *Tally { return &Tally{sum: sha256.New()} }

// Add counts one line, newline included.
func (t *Tally) Add(line []byte) {
	t.count++
	t.sum.Write(line) // a hash never fails
}

// Trailer returns the trailer of the lines so far.
func (t *Tally) Trailer(revision int64) Trailer {
	return Trailer{Records: t.count, Digest: "sha256:" + hex.EncodeToString(t.sum.Sum(nil)), Revision: revision}
}

// Export calls write with the line of every record that the filter admits, newest first, and
// returns the trailer. view is applied to each record. Page size and token of the filter are
// ignored. Records that are created meanwhile are omitted.
func (r *Records) Export(ctx context.Context, f Filter, view func(Record) Record, write func(line []byte) error) (Trailer, error) {
	revision, err := r.store.LastRevision(ctx)
	if err != nil {
		return Trailer{}, fmt.Errorf("exporting approvals: %w", err)
	}
	if now := r.now(); f.Until.IsZero() || now.Before(f.Until) {
		f.Until = now
	}
	f.PageToken = ""
	tally := NewTally()
	err = r.each(ctx, f, func(rec Record) error {
		if reason.Of(rec.Withheld) == reason.VaultLocked { // an export must be complete
			return rec.Withheld
		}
		line, err := view(rec.Stored()).Line()
		if err != nil {
			return err
		}
		tally.Add(line)
		return write(line)
	})
	return tally.Trailer(revision), err
}

// find returns an open request; the bool is false if the id is not open.
func (m *requestsInMemory) find(id, callDigest string) (openRequest, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok {
		return openRequest{}, false
	}
	return openRequest{len(e.waiters), e.calls[callDigest].input, e.delivered}, true
}

func (f *feed) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}
