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

// tape is the newest part of a run's tape in memory. The journal does not push
// events into it: before an event that is not journaled is added, and before a
// client reads, the tape reads the journal up to its head. So events are in the
// order in which they happened. What no longer fits into memory is read from the
// journal again.
type tape struct {
	store Store
	cache *tapeCache
	run   string
	// bytes bounds the memory of this tape.
	bytes int

	mu     sync.Mutex
	mapper *mapper
	// scanned is the journal's sequence number that was read last, last that of
	// the run's own newest event, and offset the next one after it.
	scanned int64
	last    int64
	offset  int64
	// durable is the tape's number of the newest event that is journaled.
	durable int64
	// items are all events after floor, in order, of some size together.
	items []*entry
	floor int64
	size  int
	// results are those of calls that ended a moment ago.
	results map[string]json.RawMessage
	// texts are those of writes that are under way, by the digests of their blobs.
	texts map[string]string
	// changed is closed, and replaced, when there is something new.
	changed chan struct{}
	// ended is set with the run's last event in items. lost says that the tape
	// is to be read from the journal.
	ended bool
	lost  bool
}

// overhead is about what an entry takes beside its texts.
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

// addAll adds what is of the run. An event that cannot be read loses the tape.
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

// fitLocked drops the oldest entries until the rest fits into the tape's memory.
func (t *tape) fitLocked() {
	for len(t.items) > 0 && t.size > t.bytes {
		t.dropLocked()
	}
}

// take fills in the texts that an entry names, as far as they are there.
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

// expect takes the texts of a write that is about to become durable, so that nobody has
// to read them. forget must be called when its events are on the tape, or never will be.
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

// write makes events durable, and tells watchers of them.
func (t *tape) write(ctx context.Context, w Write) error {
	defer t.expect(w)()
	if err := t.store.Append(ctx, w); err != nil {
		return err
	}
	defer t.cache.trim()
	t.mu.Lock()
	defer t.mu.Unlock()
	// An error leaves the events to the watchers, who look for themselves.
	_ = t.pullLocked(ctx)
	t.wakeLocked()
	return nil
}

// weight is about how much memory an entry takes.
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

// dropLocked forgets the oldest entry.
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

// wake tells watchers to look at the journal.
func (t *tape) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeLocked()
}

// evict forgets all that is held.
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

// finish ends the tape with what write makes durable. Nobody looks at the tape
// meanwhile: who sees the end of a run finds it ended everywhere.
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

// turns is how many answers of the model are durable.
func (t *tape) turns(ctx context.Context) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.pullLocked(ctx)
	return t.mapper.usage.Turns, err
}

// newest is the number of the newest durable event; known is false when memory
// has lost the tape.
func (t *tape) newest(ctx context.Context) (last int64, known bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.pullLocked(ctx); err != nil && !t.lost {
		return 0, false, err
	}
	return t.durable, !t.lost, nil
}

// add adds an event that is not journaled. One that cannot be put in its place
// is dropped: its content comes with the durable event that follows.
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

// observer follows one call of the run.
func (t *tape) observer(ctx context.Context, callID string) func(call.Event) {
	ctx = context.WithoutCancel(ctx) // what is durable is told whatever becomes of the call
	proposal := ""
	return func(e call.Event) {
		switch {
		case e.Proposed != nil:
			proposal = e.Proposed.ProposalID
		case e.Output != nil:
			// The tool may use its buffer again.
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

// result takes the bytes of a durable result, so that nobody has to read them.
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
	// An error leaves the events to the watchers, who look for themselves.
	_ = t.pullLocked(ctx)
	delete(t.results, proposal)
	t.wakeLocked()
}

// completeLocked fills in the result of a call whose end is on the tape without it: a watcher read the
// journal between the write of the event and this notice of it. Entries are shared with watchers and do
// not change, so a copy replaces the entry.
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

// view is what a watcher sees of a tape.
type view struct {
	items []*entry
	// floor is up to where memory holds nothing.
	floor   int64
	changed <-chan struct{}
	ended   bool
	lost    bool
}

// viewItems bounds what a watcher takes at once.
const viewItems = 256

// since looks at what comes after a sequence number.
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
