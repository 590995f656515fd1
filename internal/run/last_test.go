package run_test

import (
	"context"
	"testing"
	"testing/synctest"

	toolcall "palyra/internal/call"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
)

// wantLast checks the last sequence number of a run's tape.
func (w *world) wantLast(id string, want int64) {
	w.t.Helper()
	r := must.Get(w.Get(context.Background(), id))(w.t)
	if got, err := w.LastSequence(context.Background(), r); got != want || err != nil {
		w.t.Errorf("the tape goes to %d, %v, want %d", got, err, want)
	}
}

// soFar returns the tape of an active run, once the run is idle.
func (w *world) soFar(id string) []run.Event {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var list []run.Event
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Watch(ctx, id, 0, func(e run.Event) error {
			list = append(list, e)
			return nil
		}, func() {})
	}()
	synctest.Wait()
	stop()
	<-ended
	return list
}

// The last durable event of an active run is read from memory, or from the journal if the tape
// is no longer in memory. Events that are not journaled do not count.
func TestLastSequenceOfAnActiveRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("A", "work", `{}`)), waits)
		defer w.stop()
		finish := make(chan struct{})
		w.pipeline.tools["work"] = func(_ context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
			if output != nil {
				output("some output")
				<-finish
			}
			return succeeded(`{}`), nil
		}
		r, _ := w.start(run.Start{})
		synctest.Wait()
		wantTapeTo := func(kindOfLast string) {
			t.Helper()
			seen := w.soFar(r.ID)
			if got := kind(seen[len(seen)-1]); got != kindOfLast {
				t.Fatalf("the tape ends with %s, want %s", got, kindOfLast)
			}
			kept := durable(seen)
			w.wantLast(r.ID, kept[len(kept)-1].Sequence)
		}
		wantTapeTo("output")
		close(finish)
		synctest.Wait()
		wantTapeTo("attestation")
		w.DropTape(r.ID)
		wantTapeTo("attestation")
		w.LoseTape(r.ID)
		stored := must.Get(w.store.Events(t.Context(), journal.Filter{Run: r.ID, Newest: true, Limit: 1}))(t)
		w.wantLast(r.ID, stored[0].Seq*run.PerEvent+run.PerEvent>>8) // the attestation follows the result
	})
}
