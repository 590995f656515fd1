package run_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	toolcall "palyra/internal/call"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

// lockedRandom is a seeded source of random choices that is safe for concurrent use.
type lockedRandom struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newRandom(seed uint64) *lockedRandom { return &lockedRandom{rng: rand.New(rand.NewPCG(seed, 1))} }

func (d *lockedRandom) n(most int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(most)
}

// pause sleeps for a short random time, often zero.
func (d *lockedRandom) pause() { time.Sleep(time.Duration(max(d.n(12)-6, 0)) * time.Millisecond) }

// randomTurn returns a step that streams deltas and retries, and ends with calls. The last turn
// has no calls.
func (d *lockedRandom) randomTurn(last bool) step {
	return func(_ context.Context, _ model.Request, observe func(model.Event)) (model.Turn, error) {
		text := ""
		for range d.n(6) {
			d.pause()
			if d.n(5) == 0 {
				observe(model.Event{Retry: &model.Retry{Attempt: 1, Cause: reason.Errorf(reason.ModelUnavailable, "again"), After: time.Second}})
				text = ""
				continue
			}
			part := fmt.Sprintf("part %d ", d.n(1000))
			text += part
			observe(model.Event{Delta: &model.Delta{Text: part}})
		}
		turn := model.Turn{Text: text, Stop: model.EndTurn, Usage: model.Usage{InputTokens: 1, OutputTokens: 1}}
		if !last {
			turn.Stop = model.ToolUse
			for i := range 1 + d.n(4) {
				name := []string{"random", "random", "random", "ask", "deny", "none"}[d.n(6)]
				turn.Calls = append(turn.Calls, modelCall(fmt.Sprintf("call-%d-%d", i, d.n(1000)), name, `{}`))
			}
		}
		d.pause()
		return turn, nil
	}
}

// randomWork outputs chunks and takes a random time.
func (d *lockedRandom) randomWork(_ context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
	if output == nil {
		return tool.Report{}, nil
	}
	for range d.n(5) {
		d.pause()
		output(fmt.Sprintf("chunk %d", d.n(1000)))
	}
	d.pause()
	if d.n(3) == 0 {
		return tool.Report{Outcome: tool.Failed, Reason: string(reason.ToolFailed)}, nil
	}
	return succeeded(fmt.Sprintf(`{"n":%d}`, d.n(1000))), nil
}

// randomWorld returns a world with three concurrent runs in one journal.
func randomWorld(t *testing.T, d *lockedRandom) (w *world, ids []string) {
	w = newWorld(t)
	if d.n(2) == 0 {
		w.store.kept = 3 // mostly too few, so that the journal must be read
	}
	w.pipeline.tools["random"] = d.randomWork
	w.pipeline.tools["ask"] = func(ctx context.Context, s toolcall.Submission, output func(string)) (tool.Report, error) {
		if output == nil {
			return tool.Report{}, errAsk
		}
		return d.randomWork(ctx, s, output)
	}
	ended := w.ended
	go func() {
		for {
			select {
			case q := <-w.approvals.asked:
				d.pause()
				q.answer <- d.n(3) > 0
			case <-ended:
				return
			}
		}
	}()
	for i := range 3 {
		m := &scripted{}
		turns := 1 + d.n(4)
		for n := range turns {
			m.steps = append(m.steps, d.randomTurn(n == turns-1))
		}
		talks := i == 0 && d.n(2) == 0
		if talks {
			m.steps = append(m.steps, d.randomTurn(true)) // for a late message
		}
		w.config.Models[fmt.Sprint("random-", i)] = m
		r, inbox := w.start(run.Start{Model: fmt.Sprint("random-", i)})
		ids = append(ids, r.ID)
		if talks {
			if err := inbox.Say(t.Context(), "by the way"); err != nil && reason.Of(err) != reason.RunEnded {
				t.Error(err)
			}
		}
	}
	return w, ids
}

// client watches a run, disconnects at random and resumes after the last event that it received,
// until the run has ended.
func (d *lockedRandom) client(w *world, id string) (list []run.Event) {
	after := int64(0)
	gone := errors.New("gone")
	for {
		stay := 1 + d.n(9)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+d.n(20))*time.Millisecond)
		err := w.Watch(ctx, id, after, func(e run.Event) error {
			list = append(list, e)
			after = e.Sequence
			if stay--; stay == 0 {
				return gone
			}
			if d.n(4) == 0 {
				d.pause() // a slow client
			}
			return nil
		}, func() {})
		cancel()
		if err == nil {
			return list
		}
		if !errors.Is(err, gone) && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("watching after %d: %v", after, err)
			return list
		}
		d.pause()
	}
}

// wantSame compares the events that a client received with the expected ones.
func wantSame(t *testing.T, what string, got, want []run.Event) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s (-undisturbed +client):\n%s", what, cmp.Diff(want, got))
	}
}

// after returns the events with a larger sequence number.
func after(list []run.Event, seq int64) []run.Event {
	i := slices.IndexFunc(list, func(e run.Event) bool { return e.Sequence > seq })
	if i < 0 {
		return nil
	}
	return list[i:]
}

// durable returns the events that are journaled.
func durable(list []run.Event) []run.Event {
	return slices.DeleteFunc(slices.Clone(list), func(e run.Event) bool {
		return e.Sequence&(1<<20-1) >= run.FirstProvisional
	})
}

// places returns sequence numbers to resume after: on the tape, in its gaps, before it and
// beyond it.
func (d *lockedRandom) places(list []run.Event) []int64 {
	places := []int64{0, 1, list[0].Sequence - 1, list[len(list)-1].Sequence, list[len(list)-1].Sequence + 1, 1 << 62}
	for range 16 {
		places = append(places, list[d.n(len(list))].Sequence+int64(d.n(5))-2)
	}
	return places
}

// TestTapeIsResumableAnywhere: for random runs, clients that disconnect and resume at any sequence
// number receive every later event exactly once, in order, like a client without interruptions.
// After a restart, the durable events are the same.
func TestTapeIsResumableAnywhere(t *testing.T) {
	t.Parallel()
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { resumeAnywhere(t, newRandom(seed)) })
		})
		if t.Failed() {
			return
		}
	}
}

func resumeAnywhere(t *testing.T, d *lockedRandom) {
	w, ids := randomWorld(t, d)
	undisturbed := make([][]run.Event, len(ids))
	clients := make([][][]run.Event, len(ids))
	var watching sync.WaitGroup
	for i, id := range ids {
		watching.Go(func() { undisturbed[i] = w.events(id, 0) })
		clients[i] = make([][]run.Event, 3)
		for j := range clients[i] {
			watching.Go(func() { clients[i][j] = d.client(w, id) })
		}
		watching.Go(func() { w.wantNothingBeyond(id) })
	}
	watching.Wait()
	for i, id := range ids {
		all := undisturbed[i]
		wantOrder(t, all)
		w.wantLast(id, all[len(all)-1].Sequence)
		for _, got := range clients[i] {
			wantSame(t, "a client that came back", got, all)
		}
		for _, place := range d.places(all) {
			wantSame(t, fmt.Sprint("resumed after ", place), w.events(id, place), after(all, place))
		}
	}
	w.stop()
	w.open() // the memory is empty
	defer w.stop()
	for i, id := range ids {
		kept := durable(undisturbed[i])
		w.wantLast(id, kept[len(kept)-1].Sequence)
		for _, place := range d.places(undisturbed[i]) {
			wantSame(t, fmt.Sprint("after a restart, after ", place), w.events(id, place), after(kept, place))
		}
	}
}

// wantNothingBeyond checks that a watch from beyond the end returns no events.
func (w *world) wantNothingBeyond(id string) {
	if got := w.events(id, 1<<62); len(got) > 0 {
		w.t.Errorf("beyond the end there are %v", kinds(got))
	}
}

// wantOrder checks the order of a tape. Sequence numbers increase, and the events of each call
// come in their fixed order. Output is after the decision and before the result, and deltas are
// before their turn.
func wantOrder(t *testing.T, list []run.Event) {
	t.Helper()
	stages := []string{"proposed", "asked", "resolved", "decision", "output", "result", "attestation"}
	reached := make(map[string]int)
	last := int64(0)
	text := ""
	for _, e := range list {
		if e.Sequence <= last {
			t.Errorf("%d follows %d", e.Sequence, last)
		}
		last = e.Sequence
		if stage := slices.Index(stages, kind(e)); stage >= 0 {
			if stage < reached[e.ProposalID] || (stage > 0 && reached[e.ProposalID] == 0 && stage != 3 && stage != 1) {
				t.Errorf("%s of call %s comes after %s", kind(e), e.CallID, stages[reached[e.ProposalID]])
			}
			reached[e.ProposalID] = stage
		}
		switch {
		case e.Delta != nil:
			text += e.Delta.Text
		case e.Retry != nil:
			text = ""
		case e.Turn != nil:
			if e.Turn.Text != text {
				t.Errorf("the deltas say %q, the turn %q", text, e.Turn.Text)
			}
			text = ""
		}
	}
	if len(list) == 0 || list[0].Started == nil || list[len(list)-1].Finished == nil {
		t.Errorf("the tape is %v", kinds(list))
	}
}

// TestTapeMemoryIsBounded: neither one tape nor all tapes together exceed their memory limits.
// Events beyond the limits are lost, except durable ones.
func TestTapeMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const each, all = 8 << 10, 12 << 10
	t.Run("one", func(t *testing.T) { loudRuns(t, 1, each, each, all) })
	// The newest event may exceed the limit until the next check.
	t.Run("all", func(t *testing.T) { loudRuns(t, 3, all+each, each, all) })
}

// The memory of runs without provisional events is also limited.
func TestTapeMemoryOfQuietRunsIsBounded(t *testing.T) {
	t.Parallel()
	const each, all = 8 << 10, 12 << 10
	w := newWorld(t)
	defer w.stop()
	w.BoundTapes(each, all)
	w.pipeline.tools["big"] = returns(`"` + strings.Repeat("r", each-2000) + `"`)
	for i := range 12 {
		w.config.Models[fmt.Sprint(i)] = &scripted{steps: []step{
			calls(modelCall("a", "big", `{}`)),
			func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
				return model.Turn{Text: "done", Stop: model.EndTurn}, nil
			},
		}}
		r, _ := w.start(run.Start{Model: fmt.Sprint(i)})
		w.finish(r.ID)
	}
	if held := w.TapeMemory(); held > all || held == 0 {
		t.Errorf("tapes hold %d bytes, more than %d", held, all)
	}
}

// loudRuns runs n runs with much output, whose tapes may not hold more than most.
func loudRuns(t *testing.T, n int, most int64, each int, all int64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.BoundTapes(each, all)
		w.pipeline.tools["loud"] = func(_ context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
			if output == nil {
				return tool.Report{}, nil
			}
			for range 100 {
				output(strings.Repeat("x", 500))
				if held := w.TapeMemory(); held > most {
					t.Errorf("tapes hold %d bytes, more than %d", held, most)
				}
			}
			time.Sleep(time.Second)
			return succeeded(`"` + strings.Repeat("r", each) + `"`), nil
		}
		var ids []string
		for i := range n {
			w.config.Models[fmt.Sprint(i)] = &scripted{steps: []step{calls(modelCall("a", "loud", `{}`)), says("done")}}
			r, _ := w.start(run.Start{Model: fmt.Sprint(i)})
			ids = append(ids, r.ID)
		}
		for _, id := range ids {
			list := w.events(id, 0)
			want := []string{"started", "turn", "proposed", "decision", "result", "attestation", "turn", "finished"}
			if got := kinds(durable(list)); !slices.Equal(got, want) {
				t.Errorf("the durable events are %v, want %v", got, want)
			}
			for _, e := range list {
				if e.Result != nil && len(e.Result.Result) != each+2 {
					t.Errorf("the result has %d bytes", len(e.Result.Result))
				}
			}
		}
		time.Sleep(run.TapeLife + time.Second)
		synctest.Wait()
		if held := w.TapeMemory(); held != 0 {
			t.Errorf("after their life, tapes hold %d bytes", held)
		}
	})
}

// TestWatchersSurviveALostTape: if a tape is evicted from memory while it is watched, its
// watchers still get all durable events.
func TestWatchersSurviveALostTape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			d := newRandom(seed)
			w, ids := randomWorld(t, d)
			var got []run.Event
			err := w.Watch(t.Context(), ids[0], 0, func(e run.Event) error {
				got = append(got, e)
				if d.n(3) == 0 {
					d.pause()
					w.DropTape(ids[0])
				}
				return nil
			}, func() {})
			must.Check(t, err)
			for _, id := range ids {
				w.events(id, 0)
			}
			w.stop()
			w.open()
			wantSame(t, "dropped", durable(got), w.events(ids[0], 0))
			w.stop()
		}
	})
}

// TestTapeIsOfOnePrincipal: a tape contains no events of another principal's run of the same name,
// or of calls in it.
func TestTapeIsOfOnePrincipal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "slow", `{}`)), says("done"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Second)
		r, _ := w.start(run.Start{})
		synctest.Wait()
		for _, name := range []string{"echo", "none", "deny"} {
			_, _ = w.pipeline.Call(t.Context(), toolcall.Submission{Caller: alice, Tool: name, Run: r.ID, CallID: "theirs"}, func(toolcall.Event) {})
		}
		for _, e := range w.events(r.ID, 0) {
			if e.CallID == "theirs" {
				t.Errorf("the tape has %s of another's call", kind(e))
			}
		}
	})
}

// A chunk that arrives after the end of its call is dropped.
func TestLateOutputIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "late", `{}`)), calls(modelCall("b", "slow", `{}`)), says("done"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Minute)
		w.pipeline.tools["late"] = func(_ context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
			if output != nil {
				output("in time")
				time.AfterFunc(time.Second, func() { output("late") })
			}
			return succeeded(`{}`), nil
		}
		r, _ := w.start(run.Start{})
		list := w.events(r.ID, 0)
		wantOrder(t, slices.DeleteFunc(slices.Clone(list), func(e run.Event) bool { return e.Turn != nil || e.Delta != nil }))
		for _, e := range list {
			if e.Output != nil && string(e.Output.Data) != "in time" {
				t.Errorf("the tape has %q", e.Output.Data)
			}
		}
	})
}

// A delta that arrives after its turn is dropped.
func TestLateDeltaIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, _ model.Request, observe func(model.Event)) (model.Turn, error) {
			time.AfterFunc(time.Second, func() { observe(model.Event{Delta: &model.Delta{Text: "late"}}) })
			return model.Turn{Calls: []model.Call{modelCall("a", "slow", `{}`)}, Stop: model.ToolUse}, nil
		}, says("done"))
		defer w.stop()
		w.pipeline.tools["slow"] = sleeps(time.Minute)
		r, _ := w.start(run.Start{})
		for _, e := range w.events(r.ID, 0) {
			if e.Delta != nil && e.Delta.Text == "late" {
				t.Error("the tape has a part of an answer that was there as a whole")
			}
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits)
		defer w.stop()
		r, _ := w.start(run.Start{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Watch(ctx, r.ID, 0, func(run.Event) error { return nil }, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the watch ended with %v", err)
		}
		reasontest.Want(t, "the error", w.Watch(t.Context(), "01JNONE0000000000000000000", 0, nil, nil), reason.NotFound)
	})
}

// TestFreshTextsAreNotRead: recent texts of a run are on its tape without a read of their
// blobs. This also applies if a watcher reads the journal before the run is notified of the end
// of its call.
func TestFreshTextsAreNotRead(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		testFreshTexts(t, early)
	}
}

func testFreshTexts(t *testing.T, early bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("a", "echo", `{"text":"one"}`)), says("done"))
		if early {
			w.pipeline.ended = func(id string) {
				must.Get(w.LastSequence(t.Context(), run.Record{ID: id, State: run.Running}))(t)
			}
		}
		task := strings.Repeat("a long task ", 10_000)
		r, _ := w.start(run.Start{Message: task})
		w.finish(r.ID)
		if n := w.store.hideBlobs(task); n < 2 { // the task is written by Start
			t.Fatalf("only %d texts were in blobs", n)
		}
		fresh := durable(w.events(r.ID, 0))
		w.stop()
		w.open() // the memory is empty
		defer w.stop()
		if err := w.Watch(t.Context(), r.ID, 0, func(run.Event) error { return nil }, func() {}); err == nil {
			t.Error("the control: without memory nothing had to be read")
		}
		w.store.hidden = nil
		wantSame(t, "after a restart", w.events(r.ID, 0), fresh)
	})
}
