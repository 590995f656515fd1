package logins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/identity"
	"palyra/internal/reason"
)

// browserTimeout bounds what a browser may take to send a request.
const browserTimeout = 10 * time.Second

// comeBack is what the person sees in the browser at the end.
const comeBack = "You can close this page and go back to the terminal.\n"

// inBrowser logs in with a browser on this machine: the provider sends it back to a
// listener here (RFC 8252, section 7.3).
func (a *app) inBrowser(ctx context.Context, try attempt) (*palyrav1.LoginSession, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the browser: %w", err)
	}
	defer func() { _ = l.Close() }()
	redirect := "http://" + l.Addr().String() + "/callback"
	begun, err := try.gateway.BeginLogin(ctx, &palyrav1.BeginLoginRequest{CertificateRequest: try.request, RedirectUri: redirect})
	if err != nil {
		return nil, err
	}
	page, err := url.Parse(begun.GetAuthorizationUrl())
	if err != nil || page.Scheme != "https" && page.Scheme != "http" || page.Query().Get("state") == "" {
		return nil, reason.Errorf(reason.VerificationFailed, "the gateway sends to no page of an identity provider")
	}
	ctx, cancel := context.WithDeadline(ctx, begun.GetExpiresAt().AsTime())
	defer cancel()
	a.Say("Open this page in a browser on this machine, and log in:")
	a.Say("  %s", printer.VisibleLine(page.String()))
	back, err := a.await(ctx, l, page.Query().Get("state"))
	if err != nil {
		return nil, err
	}
	if problem := back.Get("error"); problem != "" {
		return nil, reason.Errorf(reason.LoginRefused, "the identity provider does not let you in: %q", problem)
	}
	proof, err := identity.Prove(try.key, identity.LoginProof(begun.GetLoginId(), back.Get("code")))
	if err != nil {
		return nil, err
	}
	done, err := try.gateway.CompleteLogin(ctx, &palyrav1.CompleteLoginRequest{
		LoginId: begun.GetLoginId(), State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"), Proof: proof,
	})
	return done.GetSession(), err
}

// await waits for the browser. Whatever comes without the login's state is of somebody
// else, and is not looked at.
func (a *app) await(ctx context.Context, l net.Listener, state string) (url.Values, error) {
	came := make(chan url.Values, 1)
	server := &http.Server{ReadHeaderTimeout: browserTimeout, MaxHeaderBytes: 64 << 10, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			_, _ = w.Write([]byte(comeBack))
		default:
			w.WriteHeader(http.StatusConflict)
		}
	})}
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
		return back, nil
	case <-served:
		return nil, fmt.Errorf("listening for the browser: %w", ended)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, reason.Errorf(reason.LoginRefused, "nobody logged in in the browser in time")
		}
		return nil, ctx.Err()
	}
}
