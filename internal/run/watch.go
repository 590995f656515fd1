package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// replayPage is how many journal events a replay reads at once.
const replayPage = 256

// Watch calls fn with every event of a run's tape after a sequence number, in order, including
// new events. It returns nil after the last event of an ended run, or the error of fn or ctx.
// It calls idle before it waits for more. A slow fn does not delay the run. It may miss deltas,
// retries and output, which are dropped when memory is full. It misses no durable event.
func (m *Manager) Watch(ctx context.Context, id string, after int64, fn func(Event) error, idle func()) error {
	record, err := m.Store.Get(ctx, id)
	if err != nil {
		return err
	}
	w := &watcher{store: m.Store, approvals: m.Approvals, fn: fn, idle: idle, after: after, record: record, mapper: newMapper(record)}
	t := m.tapes.find(id)
	if t == nil {
		_, err := w.replay(ctx, math.MaxInt64)
		return err
	}
	return w.follow(ctx, t)
}

// LastSequence returns the sequence number of the newest durable event on a run's tape; for an
// ended run, of its last event.
func (m *Manager) LastSequence(ctx context.Context, r Record) (int64, error) {
	if r.State != Running {
		end, err := m.Store.Events(ctx, journal.Filter{Run: r.ID, Code: string(event.RunFinished), Newest: true, Limit: 1})
		if err != nil || len(end) == 0 {
			return 0, err
		}
		return end[0].Seq << placeBits, nil
	}
	if t := m.tapes.find(r.ID); t != nil {
		if last, known, err := t.newest(ctx); err != nil || known {
			return last, err
		}
	}
	w := &watcher{store: m.Store, approvals: m.Approvals, fn: func(Event) error { return nil }, record: r, mapper: newMapper(r)}
	_, err := w.replay(ctx, math.MaxInt64)
	return w.after, err
}

// watcher follows one tape for one client.
type watcher struct {
	store     Store
	approvals Approvals
	fn        func(Event) error
	idle      func()
	record    Record
	// after is the last sequence number that the client received.
	after int64
	// mapper has processed the journal up to read.
	mapper *mapper
	read   int64
}

// follow forwards a live tape until it ends.
func (w *watcher) follow(ctx context.Context, t *tape) error {
	for {
		v, err := t.since(ctx, w.after)
		switch {
		case err != nil:
			return err
		case v.lost:
			return w.followLost(ctx)
		case w.after < v.floor:
			if _, err := w.replay(ctx, v.floor); err != nil {
				return err
			}
			w.after = max(w.after, v.floor)
			continue
		case len(v.items) == 0 && v.ended:
			return nil
		case len(v.items) == 0:
			w.idle()
			select {
			case <-v.changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for _, en := range v.items {
			if err := w.pass(ctx, en); err != nil {
				return err
			}
		}
	}
}

// followLost forwards the journal of a tape that is not in memory any more.
func (w *watcher) followLost(ctx context.Context) error {
	finished, err := w.replay(ctx, math.MaxInt64)
	if err == nil && !finished {
		return reason.Errorf(reason.Internal, "following the run failed; the run continues").
			WithRemedy("Watch it again after event %d.", w.after)
	}
	return err
}

// replay forwards the journal up to a sequence number of the tape, and reports whether that
// includes the end of the run.
func (w *watcher) replay(ctx context.Context, upTo int64) (finished bool, err error) {
	for !w.mapper.finished {
		page, err := w.store.Events(ctx, journal.Filter{
			Run: w.record.ID, After: w.read, UpTo: upTo >> placeBits, Limit: replayPage,
		})
		if err != nil {
			return false, err
		}
		for _, e := range page {
			list, err := w.mapper.next(e)
			if err != nil {
				return false, err
			}
			w.read = e.Seq
			for _, en := range list {
				if err := w.pass(ctx, en); err != nil {
					return false, err
				}
			}
		}
		if len(page) < replayPage {
			break
		}
	}
	return w.mapper.finished, nil
}

// pass forwards one event, unless the client received it.
func (w *watcher) pass(ctx context.Context, en *entry) error {
	if en.Sequence <= w.after {
		return nil
	}
	e, err := w.whole(ctx, en)
	if err != nil {
		return fmt.Errorf("reading event %d of run %s: %w", en.Sequence, w.record.ID, err)
	}
	if err := w.fn(e); err != nil {
		return err
	}
	w.after = en.Sequence
	return nil
}

// whole reads the blobs that an entry names. Entries are shared and immutable.
func (w *watcher) whole(ctx context.Context, en *entry) (Event, error) {
	e := en.Event
	if en.approvalID != "" {
		r, err := w.approvals.Get(ctx, en.approvalID)
		e.Asked = &r
		return e, err
	}
	if en.resultBlob != "" {
		data, err := w.store.Blob(ctx, en.resultBlob)
		report := *e.Result
		report.Result = json.RawMessage(data)
		if reason.Of(err) == reason.ResultExpired {
			report.Message, err = cmp.Or(report.Message, expired), nil
		}
		e.Result = &report
		return e, err
	}
	if en.textBlob != "" {
		text, err := w.text(ctx, en.textBlob)
		if err != nil {
			return e, err
		}
		e = e.withText(text)
	}
	return w.wholeInputs(ctx, en, e)
}

// expired replaces content whose retention has ended.
const expired = "[expired: only its digest is kept]"

// text reads a text of the model or the user.
func (w *watcher) text(ctx context.Context, digest string) (string, error) {
	data, err := w.store.Blob(ctx, digest)
	if reason.Of(err) == reason.ResultExpired {
		return expired, nil
	}
	return string(data), err
}

// withText sets the text of a start, message or turn.
func (e Event) withText(text string) Event {
	switch {
	case e.Started != nil:
		r := *e.Started
		r.Message = text
		e.Started = &r
	case e.Message != nil:
		e.Message = &Message{Text: text}
	case e.Turn != nil:
		t := *e.Turn
		t.Text = text
		e.Turn = &t
	}
	return e
}

func (w *watcher) wholeInputs(ctx context.Context, en *entry, e Event) (_ Event, err error) {
	if len(en.inputBlobs) == 0 {
		return e, nil
	}
	t := *e.Turn
	t.Calls = slices.Clone(t.Calls)
	for _, i := range slices.Sorted(maps.Keys(en.inputBlobs)) {
		if t.Calls[i].Input, err = w.text(ctx, en.inputBlobs[i]); err != nil {
			return e, err
		}
	}
	e.Turn = &t
	return e, nil
}
