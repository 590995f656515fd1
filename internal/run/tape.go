package run

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// tape is the in-memory newest part of a run's tape. The journal does not push events: the tape
// reads the journal up to its head before an unjournaled event is added, and before a client reads.
// Events are therefore in the order of occurrence. Events that exceed the memory are read from the
// journal again.
type tape struct {
	store Store
	cache *tapeCache
	run   string
	// bytes limits the memory of this tape.
	bytes int

	mu     sync.Mutex
	mapper *mapper
	// scanned is the journal's sequence number that was read last. last is the sequence number of
	// the run's newest event, and offset the next free offset after it.
	scanned int64
	last    int64
	offset  int64
	// durable is the tape's number of the newest journaled event.
	durable int64
	// items are all events after floor, in order, with their total size.
	items []*entry
	floor int64
	size  int
	// results are the results of calls that ended recently.
	results map[string]json.RawMessage
	// texts are the texts of writes in progress, by the digests of their blobs.
	texts map[string]string
	// changed is closed and replaced when the tape gets new events.
	changed chan struct{}
	// ended is set with the run's last event in items. lost makes clients read the journal instead.
	ended bool
	lost  bool
}

// overhead is the approximate size of an entry without its texts.
const overhead = 512

// pullLocked reads the journal up to its head.
func (t *tape) pullLocked(ctx context.Context) error {
	for !t.lost && !t.mapper.finished {
		head := t.store.Head().Seq
		if head == t.scanned {
			return nil
		}
		events, whole := t.store.Recent(t.scanned)
		if !whole {
			var err error
			if events, err = t.store.Events(ctx, journal.Filter{Run: t.run, After: t.scanned, UpTo: head}); err != nil {
				return err
			}
			whole = len(events) < journal.DefaultLimit
		}
		if err := t.addAll(events); err != nil {
			return err
		}
		if whole {
			t.scanned = max(t.scanned, head)
		}
	}
	return nil
}

// addAll adds the events of the run. After an unreadable event the tape is lost.
func (t *tape) addAll(events []journal.Event) error {
	for _, e := range events {
		if e.Run == t.run && !t.mapper.finished {
			list, err := t.mapper.next(e)
			if err != nil {
				t.loseLocked()
				return err
			}
			for _, en := range list {
				t.addLocked(en)
			}
			if len(list) > 0 {
				t.last, t.offset, t.durable = e.Seq, firstProvisional, list[len(list)-1].Sequence
			}
		}
		t.scanned = e.Seq
	}
	return nil
}

func (t *tape) addLocked(en *entry) {
	if en.Result != nil && en.durable {
		if result, there := t.results[en.ProposalID]; there {
			delete(t.results, en.ProposalID)
			en.Result.Result, en.resultBlob = result, ""
		}
	}
	en.take(t.texts)
	t.items = append(t.items, en)
	t.resizeLocked(en.weight())
	t.fitLocked()
	t.wakeLocked()
}

// fitLocked drops the oldest entries until the rest fits.
func (t *tape) fitLocked() {
	for len(t.items) > 0 && t.size > t.bytes {
		t.dropLocked()
	}
}

// take sets the texts that an entry names, if available.
func (en *entry) take(texts map[string]string) {
	if text, there := texts[en.textBlob]; there {
		en.Event, en.textBlob = en.withText(text), ""
	}
	for i, digest := range en.inputBlobs {
		if text, there := texts[digest]; there {
			en.Turn.Calls[i].Input = text
			delete(en.inputBlobs, i)
		}
	}
}

// expect provides the texts of a write that is about to become durable. The tape then need not
// read them. forget must be called when the events of the write are on the tape, or when the
// write has failed.
func (t *tape) expect(w Write) (forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.texts, w.texts)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for digest := range w.texts {
			delete(t.texts, digest)
		}
	}
}

// write makes events durable and wakes watchers.
func (t *tape) write(ctx context.Context, w Write) error {
	defer t.expect(w)()
	if err := t.store.Append(ctx, w); err != nil {
		return err
	}
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	// On an error, watchers read the events themselves.
	_ = t.pullLocked(ctx)
	t.wakeLocked()
	return nil
}

// weight is the approximate memory of an entry.
func (en *entry) weight() int {
	n := overhead
	switch {
	case en.Delta != nil:
		n += len(en.Delta.Text)
	case en.Output != nil:
		n += len(en.Output.Data)
	case en.Result != nil:
		n += len(en.Result.Result)
	case en.Attestation != nil:
		n += len(en.Attestation.Envelope.JSON)
	case en.Message != nil:
		n += len(en.Message.Text)
	case en.Turn != nil:
		n += len(en.Turn.Text)
		for _, c := range en.Turn.Calls {
			n += len(c.Input)
		}
	}
	return n
}

// dropLocked drops the oldest entry.
func (t *tape) dropLocked() {
	en := t.items[0]
	t.floor = en.Sequence
	t.items[0] = nil
	t.items = t.items[1:]
	t.resizeLocked(-en.weight())
}

func (t *tape) resizeLocked(by int) {
	t.size += by
	t.cache.used.Add(int64(by))
}

func (t *tape) wakeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// wake makes watchers check the journal.
func (t *tape) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeLocked()
}

// evict drops all entries.
func (t *tape) evict() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.items) > 0 {
		t.dropLocked()
	}
}

// lose makes watchers read the journal from now on.
func (t *tape) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loseLocked()
}

func (t *tape) loseLocked() {
	t.lost = true
	for len(t.items) > 0 {
		t.dropLocked()
	}
	t.wakeLocked()
}

// finish ends the tape with the events that write makes durable. The tape is locked meanwhile.
// A watcher that receives the end of a run therefore finds the run ended everywhere.
func (t *tape) finish(ctx context.Context, write func() error) error {
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	if err := t.pullLocked(ctx); err != nil || !t.mapper.finished {
		t.loseLocked()
		return nil
	}
	t.ended = true
	t.wakeLocked()
	return nil
}

// turns returns how many answers of the model are durable.
func (t *tape) turns(ctx context.Context) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.pullLocked(ctx)
	return t.mapper.usage.Turns, err
}

// newest returns the number of the newest durable event; known is false if the tape is lost.
func (t *tape) newest(ctx context.Context) (last int64, known bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.pullLocked(ctx); err != nil && !t.lost {
		return 0, false, err
	}
	return t.durable, !t.lost, nil
}

// add adds an unjournaled event. If its position cannot be determined it is dropped: the durable
// event that follows has its content.
func (t *tape) add(ctx context.Context, e Event) {
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addProvisional(ctx, e)
}

func (t *tape) addProvisional(ctx context.Context, e Event) {
	if err := t.pullLocked(ctx); err != nil || t.lost || t.mapper.finished || t.last == 0 || t.offset > lastProvisional {
		return
	}
	if e.Output != nil {
		c := t.mapper.calls[e.ProposalID]
		if c == nil || !c.decided || c.ended {
			return
		}
	}
	e.Sequence, e.At = t.last<<placeBits+t.offset, journal.Instant(time.Now())
	t.offset++
	t.addLocked(&entry{Event: e})
}

// observer returns the function that records the events of one call of the run.
func (t *tape) observer(ctx context.Context, callID string) func(call.Event) {
	ctx = context.WithoutCancel(ctx) // durable events are recorded regardless of the call
	proposal := ""
	return func(e call.Event) {
		switch {
		case e.Proposed != nil:
			proposal = e.Proposed.ProposalID
		case e.Output != nil:
			// The tool may reuse its buffer.
			t.add(ctx, Event{ProposalID: proposal, CallID: callID, Output: &call.Chunk{
				Stream: e.Output.Stream, Data: bytes.Clone(e.Output.Data),
			}})
		case e.Result != nil:
			t.result(ctx, proposal, e.Result)
		case e.Asked != nil, e.Decision != nil, e.Ruling != nil:
			t.wake()
		}
	}
}

// result provides the bytes of a durable result, so that they need not be read.
func (t *tape) result(ctx context.Context, proposal string, r *tool.Report) {
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch c := t.mapper.calls[proposal]; {
	case len(r.Result) == 0:
	case c != nil && c.ended:
		t.completeLocked(proposal, r.Result)
	default:
		t.results[proposal] = r.Result
	}
	// On an error, watchers read the events themselves.
	_ = t.pullLocked(ctx)
	delete(t.results, proposal)
	t.wakeLocked()
}

// completeLocked adds the result to the end of a call if a watcher read the journal between the
// write of the event and this notice. Entries are shared with watchers and immutable, so a copy
// replaces the entry.
func (t *tape) completeLocked(proposal string, result json.RawMessage) {
	for i, en := range slices.Backward(t.items) {
		if en.ProposalID != proposal || en.Result == nil || en.resultBlob == "" {
			continue
		}
		whole, report := *en, *en.Result
		report.Result = result
		whole.Result, whole.resultBlob = &report, ""
		t.items[i] = &whole
		t.resizeLocked(whole.weight() - en.weight())
		t.fitLocked()
		return
	}
}

// view is a watcher's snapshot of a tape.
type view struct {
	items []*entry
	// floor is the sequence number up to which the memory has no entries.
	floor   int64
	changed <-chan struct{}
	ended   bool
	lost    bool
}

// viewItems bounds the entries that a watcher takes at once.
const viewItems = 256

// since returns the entries after a sequence number.
func (t *tape) since(ctx context.Context, after int64) (view, error) {
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.pullLocked(ctx); err != nil && !t.lost {
		return view{}, err
	}
	v := view{floor: t.floor, changed: t.changed, ended: t.ended, lost: t.lost}
	from, _ := slices.BinarySearchFunc(t.items, after+1, func(en *entry, seq int64) int {
		return int(min(max(en.Sequence-seq, -1), 1))
	})
	v.items = slices.Clone(t.items[from:min(from+viewItems, len(t.items))])
	return v, nil
}
