package desktop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"palyra/internal/cli/calls/desktop"
)

// wall is a desktop that records its notifications and their times.
type wall struct {
	mu     sync.Mutex
	shown  []string
	at     []time.Time
	fails  error
	closed bool
}

func (w *wall) Show(_ context.Context, title, body string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown, w.at = append(w.shown, title+": "+body), append(w.at, time.Now())
	return w.fails
}

func (w *wall) Clear(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = append(w.shown, "cleared")
	return nil
}

func (w *wall) Close() { w.closed = true }

func (w *wall) want(t *testing.T, list ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.shown, list) {
		t.Errorf("shown: %q, want %q", w.shown, list)
	}
}

// runBell runs a bell in a bubble with its own clock.
func runBell(t *testing.T, do func(t *testing.T, b *desktop.Bell, w *wall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wall{}
		b := desktop.New(w, func(error) { t.Error("the desktop failed") })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		do(t, b, w)
		cancel()
		<-done
		if !w.closed {
			t.Error("the desktop is not closed")
		}
	})
}

func TestOneAsk(t *testing.T) {
	t.Parallel()
	runBell(t, func(t *testing.T, b *desktop.Bell, w *wall) {
		b.Saw("a", "git push", true)
		time.Sleep(time.Minute)
		w.want(t, "A call waits for approval: git push")
		// A vote changes the approval, and the call keeps waiting.
		b.Saw("a", "git push", true)
		time.Sleep(time.Minute)
		w.want(t, "A call waits for approval: git push")
		b.Saw("a", "git push", false)
		time.Sleep(time.Minute)
		w.want(t, "A call waits for approval: git push", "cleared")
	})
}

// An approval that ends immediately, or ended before the watch began, has no notification.
func TestAnsweredAsk(t *testing.T) {
	t.Parallel()
	runBell(t, func(t *testing.T, b *desktop.Bell, w *wall) {
		b.Saw("old", "git pull", false)
		b.Saw("a", "git push", true)
		b.Saw("a", "git push", false)
		time.Sleep(time.Minute)
		w.want(t)
	})
}

func TestManyAsks(t *testing.T) {
	t.Parallel()
	runBell(t, func(t *testing.T, b *desktop.Bell, w *wall) {
		for i := range 10 {
			b.Saw(fmt.Sprint(i), "git push", true)
		}
		time.Sleep(time.Minute)
		w.want(t, "10 calls wait for approval: Run palyra approvals list.")
		b.Saw("3", "git push", false) // no new notification
		time.Sleep(time.Minute)
		w.want(t, "10 calls wait for approval: Run palyra approvals list.")
	})
}

// A desktop gets at most one notification in two seconds, regardless of the number of
// approvals.
func TestFlood(t *testing.T) {
	t.Parallel()
	runBell(t, func(t *testing.T, b *desktop.Bell, w *wall) {
		for i := range 10_000 {
			b.Saw(fmt.Sprint(i), "git push", true)
			b.Saw(fmt.Sprint(i-5), "git push", false)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.shown) < 2 || len(w.shown) > 6 {
			t.Errorf("%d notifications in 10 s: %q", len(w.shown), w.shown)
		}
		for i := 1; i < len(w.at); i++ {
			if between := w.at[i].Sub(w.at[i-1]); between < 2*time.Second {
				t.Errorf("two notifications within %s", between)
			}
		}
	})
}

// A failure is reported once, and the next approval is tried again.
func TestDesktopFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, said := &wall{fails: errors.New("no bus")}, 0
		b := desktop.New(w, func(error) { said++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		for _, id := range []string{"a", "b", "c"} {
			b.Saw(id, id, true)
			time.Sleep(time.Minute)
		}
		cancel()
		<-done
		if said != 1 || len(w.shown) != 3 {
			t.Errorf("said %d times, tried %d times", said, len(w.shown))
		}
	})
}

// stuck is a desktop that never responds.
type stuck struct{ wall }

func (*stuck) Show(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A desktop that never responds does not delay the caller. Its notification fails after two
// seconds.
func TestStuckDesktop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, began := make(chan error, 1), time.Now()
		b := desktop.New(&stuck{}, func(err error) { failed <- err })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		for i := range 1000 {
			b.Saw(fmt.Sprint(i), "git push", true)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the watch waited %s", waited)
		}
		err := <-failed
		if waited := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || waited > 3*time.Second {
			t.Errorf("it took %s: %v", waited, err)
		}
		// An interrupt ends the wait.
		b.Saw("more", "git push", true)
		time.Sleep(2500 * time.Millisecond)
		cancel()
		<-done
	})
}

// A summary, which a model wrote, becomes one short line without control characters.
func TestHostileSummary(t *testing.T) {
	t.Parallel()
	runBell(t, func(t *testing.T, b *desktop.Bell, w *wall) {
		b.Saw("a", "rm \x1b[2J\x07\u202e\u2066\nnext\r"+strings.Repeat("ä", 100_000), true)
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.shown) != 1 || len(w.shown[0]) > 300 || !strings.Contains(w.shown[0], "rm ") || !strings.HasSuffix(w.shown[0], "ä...") {
			t.Fatalf("shown: %q", w.shown)
		}
		if i := strings.IndexFunc(w.shown[0], func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }); i >= 0 {
			t.Errorf("shown: %q", w.shown[0])
		}
	})
}
