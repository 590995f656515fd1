package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/ratelimit"
	"palyra/internal/reason"
	"palyra/internal/rpc"
)

// serve opens the listeners, then serves until ctx ends. Both are open before
// anybody is told that the daemon is ready.
func (g *gateway) serve(ctx context.Context, ready func(Addresses)) error {
	api, err := g.apiServer(ctx)
	if err != nil {
		return err
	}
	apiListener, err := listen(ctx, g.cfg.Listen.API, "listen.api")
	if err != nil {
		return err
	}
	defer func() { _ = apiListener.Close() }()
	at := Addresses{API: apiListener.Addr().String(), Credentials: operatorDir(g.cfg.StateDir)}
	group, groupCtx := errgroup.WithContext(ctx)
	if g.cfg.Listen.Metrics != "" {
		listener, err := listen(ctx, g.cfg.Listen.Metrics, "listen.metrics")
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		at.Metrics = listener.Addr().String()
		group.Go(func() error {
			return serveUntil(groupCtx, &http.Server{Handler: g.metrics.handler(), ReadHeaderTimeout: headerTimeout}, listener)
		})
	}
	if err := g.writeOperator(ctx, at.API); err != nil {
		return err
	}
	group.Go(func() error { return serveTLSUntil(groupCtx, api, apiListener) })
	g.log.Info("palyrad is ready", slog.String("api", at.API), slog.String("metrics", at.Metrics), slog.String("state_dir", g.cfg.StateDir))
	if ready != nil {
		ready(at)
	}
	return group.Wait()
}

// headerTimeout bounds how long a client may take to say what it wants.
const headerTimeout = 10 * time.Second

func listen(ctx context.Context, address, key string) (net.Listener, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "listening on %s: %w", address, err).
			WithRemedy("Stop what holds the port, or set %s to another.", key)
	}
	return l, nil
}

func (g *gateway) apiServer(ctx context.Context) (*http.Server, error) {
	limiter, err := ratelimit.New(rateLimits(g.cfg))
	if err != nil {
		return nil, err
	}
	handler, err := rpc.New(ctx, rpc.Config{
		Auth: g.identity, Limiter: limiter, Audit: g.auditor, Engine: g.engine, Pipeline: g.pipeline, Router: g.router,
		Desk: g.desk, Journal: g.journal, Evidence: &evidence{g.db, g.notary}, Policies: g.policies,
		Members: &members{g}, Gateway: g, Log: g.log,
	})
	if err != nil {
		return nil, err
	}
	tls, err := g.authority.ServerTLS(slices.Concat(ca.Loopback(), g.cfg.Listen.ServerNames), g.identity.Allow)
	if err != nil {
		return nil, err
	}
	return &http.Server{
		Handler: handler, TLSConfig: tls, ReadHeaderTimeout: headerTimeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}, nil
}

func serveTLSUntil(ctx context.Context, s *http.Server, l net.Listener) error {
	return until(ctx, s, func() error { return s.ServeTLS(l, "", "") })
}

func serveUntil(ctx context.Context, s *http.Server, l net.Listener) error {
	return until(ctx, s, func() error { return s.Serve(l) })
}

// until serves until ctx ends, lets requests finish within drainTime, and
// then cuts them off.
func until(ctx context.Context, s *http.Server, serve func() error) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if s.Shutdown(drain) != nil {
			stopped <- s.Close()
			return
		}
		stopped <- nil
	})
	err := serve()
	if stop() {
		// Serve ended by itself: nobody asked it to.
		return fmt.Errorf("serving: %w", err)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, <-stopped)
	}
	return <-stopped
}

// writeOperator reissues the local operator's credential for the address that
// is in use now.
func (g *gateway) writeOperator(ctx context.Context, address string) error {
	_, ok, err := g.identity.Start(ctx, g.local(address))
	if err != nil {
		return err
	}
	if !ok {
		g.log.Warn("the local operator is revoked or disabled; `palyrad operator add` makes another credential")
	}
	// The first operator is a member that policy has to know.
	return g.policies.load(ctx)
}

// local says where the local operator's bundle is and which server it is for.
func (g *gateway) local(address string) identity.LocalConfig {
	return identity.LocalConfig{Dir: operatorDir(g.cfg.StateDir), Address: reachable(address), ServerName: "localhost"}
}

// reachable turns a wildcard address into one that a local client can dial.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// keepIdentity keeps certificates fresh until ctx ends.
func (g *gateway) keepIdentity(ctx context.Context) error {
	bundle, err := identity.ReadBundle(operatorDir(g.cfg.StateDir))
	address := g.cfg.Listen.API
	if err == nil {
		address = bundle.Address
	}
	renewed := func() error {
		key := g.authority.Notary()
		return g.notary.Use(key.Signer, key.Chain)
	}
	failed := func(err error) { g.log.Error("renewing certificates", slog.String("error", err.Error())) }
	return g.identity.Run(ctx, g.local(address), renewed, failed)
}
