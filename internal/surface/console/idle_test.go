package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/console"
)

// TestBackgroundRequestsAreNotActivity: a page's background requests do not extend a session.
// Control: the same request by a user does.
func TestBackgroundRequestsAreNotActivity(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int{"1": http.StatusUnauthorized, "": http.StatusOK} {
		w := newWorld(t)
		b := w.loggedIn()
		b.background = header
		w.now = w.now.Add(50 * time.Minute)
		b.call()
		w.now = w.now.Add(50 * time.Minute)
		if code, _ := b.call(); code != want {
			t.Errorf("background %q: %d", header, code)
		}
	}
}

// TestIdleSessionEnds: an idle session and its streams end without any request.
func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		c := must.Get(console.New(console.Config{
			Origin: origin, Members: &members{}, Journal: func(context.Context, ...event.Draft) error { return nil },
			Allow: func(string) (bool, time.Duration) { return true, 0 }, Refused: func(context.Context, string, string, reason.Code) {},
			Idle: time.Hour, Life: 12 * time.Hour, Log: slog.New(slog.DiscardHandler), Files: fstest.MapFS{"index.html": {}},
		}))(t)
		c.Sessions.OnEnd(func(console.Session, *reason.Error) { ended.Add(1) })
		w := &world{Console: c, t: t, members: &members{}}
		mux := http.NewServeMux()
		for pattern, h := range c.Handlers() {
			mux.Handle(pattern, h)
		}
		w.site = c.Site(mux, http.NotFoundHandler())
		if got := w.browser().login(w.link()); got != http.StatusOK {
			t.Fatalf("login: %d", got)
		}
		must.Run(t, c.Sessions.Run)
		time.Sleep(59 * time.Minute)
		if ended.Load() != 0 {
			t.Error("it ended while it was good")
		}
		time.Sleep(2 * time.Minute)
		if synctest.Wait(); ended.Load() != 1 {
			t.Errorf("%d sessions ended", ended.Load())
		}
	})
}
