package journal

import "testing"

// TestFeedWakesWhoIsDue: whoever waits for several events sleeps until they are there,
// also beside somebody who waits for the next one.
func TestFeedWakesWhoIsDue(t *testing.T) {
	f := NewFeed()
	wait := func(past int64) <-chan struct{} {
		t.Helper()
		wake, err := f.waiter(past)
		if wake == nil || err != nil {
			t.Fatalf("past %d there is nothing to wait for at %d: %v", past, f.head.Seq, err)
		}
		return wake
	}
	woken := func(wake <-chan struct{}) bool {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	several := wait(3)
	for seq := int64(1); seq <= 3; seq++ {
		f.Publish(Head{Seq: seq}, nil)
		if woken(several) {
			t.Fatalf("woken at %d", seq)
		}
	}
	f.Publish(Head{Seq: 4}, nil)
	if wake, err := f.waiter(3); !woken(several) || wake != nil || err != nil {
		t.Errorf("not woken past 3: %v", err)
	}

	_ = wait(9)
	next := wait(4)
	f.Publish(Head{Seq: 5}, nil)
	if !woken(next) {
		t.Error("who waits for the next event is not woken")
	}
	several = wait(9)
	f.Publish(Head{Seq: 9}, nil)
	if woken(several) {
		t.Error("woken at 9")
	}
	f.Publish(Head{Seq: 12}, nil)
	if !woken(several) {
		t.Error("not woken at 12")
	}

	several = wait(100)
	f.Close()
	if _, err := f.waiter(100); !woken(several) || err == nil {
		t.Error("the end wakes nobody")
	}
}
