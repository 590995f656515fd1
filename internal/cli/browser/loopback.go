package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"palyra/internal/core/reason"
)

// browserTimeout is the timeout of a browser's request.
const browserTimeout = 10 * time.Second

// seen is the text that the browser shows at the end.
const seen = "You can close this page and return to the terminal.\n"

// Listener receives the redirect of a browser.
type Listener struct{ net.Listener }

// Listen opens a loopback port. The caller must close it.
func Listen(ctx context.Context) (Listener, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Listener{}, fmt.Errorf("listening for the browser: %w", err)
	}
	return Listener{l}, nil
}

// Redirect returns the redirect URL.
func (l Listener) Redirect() string { return "http://" + l.Addr().String() + "/callback" }

// Await waits until end for a request with the state of a page, and returns its parameters. Other
// requests are ignored.
func (l Listener) Await(ctx context.Context, page string, end time.Time) (url.Values, error) {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Query().Get("state") == "" {
		return nil, reason.Errorf(reason.VerificationFailed, "the gateway returned an invalid login page")
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	came := make(chan url.Values, 1)
	server := &http.Server{ReadHeaderTimeout: browserTimeout, MaxHeaderBytes: 64 << 10, Handler: l.handler(u.Query().Get("state"), came)}
	served := make(chan struct{})
	var ended error
	go func() {
		defer close(served)
		ended = server.Serve(l)
	}()
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
		<-served
	}()
	select {
	case back := <-came:
		if problem := back.Get("error"); problem != "" {
			return nil, reason.Errorf(reason.LoginRefused, "the login was refused there: %q", problem)
		}
		return back, nil
	case <-served:
		return nil, fmt.Errorf("listening for the browser: %w", ended)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, reason.Errorf(reason.LoginRefused, "the login in the browser timed out")
		}
		return nil, ctx.Err()
	}
}

func (l Listener) handler(state string, came chan<- url.Values) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		q := r.URL.Query()
		if r.Method != http.MethodGet || r.URL.Path != "/callback" || r.Host != l.Addr().String() || q.Get("state") != state || q.Get("code")+q.Get("error") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case came <- q:
			_, _ = w.Write([]byte(seen))
		default:
			w.WriteHeader(http.StatusConflict)
		}
	})
}
