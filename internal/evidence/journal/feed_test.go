package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"palyra/internal/core/reason"
)

// A publication wakes only the waiters whose event it contains.
func TestFeedWakesWhoseWaitIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed()
		woken := make(chan int64, 3)
		for _, after := range []int64{0, 4, 999} {
			go func() {
				if err := f.Wait(t.Context(), after); err == nil || reason.Of(err) == reason.ShuttingDown {
					woken <- after
				}
			}()
		}
		left, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Wait(left, 7) }()
		synctest.Wait()
		assertWaits(t, f, 4)
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		assertWaits(t, f, 3)
		for _, step := range []struct{ head, woken int64 }{{1, 0}, {4, -1}, {5, 4}} {
			far := waitFor(f, 999)
			f.Publish(Head{Seq: step.head}, nil)
			synctest.Wait()
			got := int64(-1)
			if len(woken) > 0 {
				got = <-woken
			}
			if got != step.woken || waitFor(f, 999) != far {
				t.Errorf("at %d, the wait for %d was over, want %d; and that for the thousandth still the same", step.head, got, step.woken)
			}
		}
		assertWaits(t, f, 1)
		f.Close()
		if <-woken != 999 {
			t.Error("the close wakes all")
		}
		assertWaits(t, f, 0)
	})
}

// waitFor returns the channel of the wait for a sequence number.
func waitFor(f *Feed, after int64) chan struct{} {
	for _, w := range f.waits {
		if w.after == after {
			return w.wake
		}
	}
	return nil
}

func assertWaits(t *testing.T, f *Feed, want int) {
	t.Helper()
	if len(f.waits) != want {
		t.Errorf("%d wait, want %d", len(f.waits), want)
	}
}
