package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/version"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/doctor"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/login/resource"
	"palyra/internal/identity/pairing"
	"palyra/internal/identity/token"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/ops/localsocket"
	"palyra/internal/ops/socket"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/dualcontrol"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/console"
	"palyra/internal/surface/console/assets"
	"palyra/internal/surface/console/certificate"
	"palyra/internal/surface/hook"
	mcpserver "palyra/internal/surface/mcp"
)

// listeners holds the open listeners. metrics, agents, console and the sockets are nil if they are
// disabled or not supported.
type listeners struct {
	api, metrics, agents, socket, hooks, shared, console net.Listener
	at                                                   Addresses
}

// open opens the listeners, writes the local operator's credential with their address, and
// activates the policies, which must include the first operator as a member. It does not serve
// requests yet.
func (g *gateway) open(ctx context.Context) error {
	var err error
	if g.listeners.api, err = listen(ctx, g.cfg.Listen.API, "listen.api"); err != nil {
		return err
	}
	addListener(g, g.listeners.api)
	g.listeners.at = Addresses{API: g.listeners.api.Addr().String(), Credentials: statedir.Operator(g.cfg.StateDir)}
	if g.cfg.Listen.Metrics != "" {
		if g.listeners.metrics, err = listen(ctx, g.cfg.Listen.Metrics, "listen.metrics"); err != nil {
			return err
		}
		addListener(g, g.listeners.metrics)
		g.listeners.at.Metrics = g.listeners.metrics.Addr().String()
	}
	if g.cfg.Listen.Agents != "" {
		l, err := listenAgents(ctx, g.cfg.Listen.Agents)
		if err != nil {
			return err
		}
		addListener(g, l)
		if g.listeners.agents, err = localsocket.Loopback(l, g.cfg.StateDir, g.cfg.Listen.AgentUIDs...); err != nil {
			return err
		}
		g.listeners.at.Agents = g.listeners.agents.Addr().String()
	}
	if err := openConsole(ctx, g); err != nil {
		return err
	}
	if g.cfg.Listen.SocketOperator {
		if g.listeners.socket, err = openSocket(ctx, g, statedir.Socket(g.cfg.StateDir), "the local operator has no socket; its certificate works"); err != nil {
			return err
		}
	}
	if g.listeners.hooks, err = openSocket(ctx, g, statedir.Hooks(g.cfg.StateDir), "agents have no socket for their hooks"); err != nil {
		return err
	}
	if g.cfg.Listen.Hooks != "" {
		if g.listeners.shared, err = localsocket.Shared(g.cfg.Listen.Hooks, g.cfg.StateDir, g.cfg.Listen.AgentUIDs...); err != nil {
			return err
		}
		addListener(g, g.listeners.shared)
	}
	_, ok, err := g.identity.Local.Start(ctx, local(g))
	if err != nil {
		return err
	}
	if !ok {
		g.log.WarnContext(ctx, "the local operator has no credential: it is revoked or disabled, or its key is kept elsewhere and is not its device's; `palyrad operator bundle local` makes another")
	}
	return g.policies.Loader.Load(ctx)
}

// openSocket opens a socket in the state directory. If a socket is not supported here, it logs
// the consequence and returns nil, and palyrad runs without the socket.
func openSocket(ctx context.Context, g *gateway, path, without string) (net.Listener, error) {
	l, err := localsocket.Listen(path)
	if errors.Is(err, localsocket.ErrNotOffered) {
		g.log.InfoContext(ctx, "a socket is not offered", slog.String("note", without), slog.String("error", err.Error()))
		return nil, nil //nolint:nilnil // none is offered here
	}
	if err != nil {
		return nil, err
	}
	addListener(g, l)
	return l, nil
}

// addListener makes a listener unreachable for programs and tools, and closes it at the end unless
// its server already has.
func addListener(g *gateway, l net.Listener) {
	g.own.Listen(l.Addr())
	g.parts.add(func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("closing the listener on %s: %w", l.Addr(), err)
		}
		return nil
	})
}

// serve serves until ctx ends and the gateway is drained.
func (g *gateway) serve(ctx context.Context, drained <-chan struct{}, ready func(Addresses)) error {
	service, agents, web, err := apiServers(ctx, g)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	if l := g.listeners.metrics; l != nil {
		group.Go(func() error {
			s := &http.Server{Handler: api.Listed(g.metrics.Handlers()), ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
			return serveUntil(groupCtx, drained, s, &acceptor{Listener: l, log: g.log, metrics: true, most: mostReaders, mostOfOne: mostReaders})
		})
	}
	group.Go(func() error {
		return serveTLSUntil(groupCtx, drained, service, &acceptor{
			Listener: g.listeners.api, log: g.log, most: g.cfg.Listen.MaxConnections, mostOfOne: g.cfg.Listen.MaxConnectionsPerAddress,
		})
	})
	if l := g.listeners.agents; l != nil {
		group.Go(func() error {
			return serveUntil(groupCtx, drained, agents, &acceptor{Listener: l, log: g.log, most: g.cfg.Listen.MaxConnections, mostOfOne: g.cfg.Listen.MaxConnectionsPerAddress})
		})
	}
	if l := g.listeners.console; l != nil {
		group.Go(func() error {
			serve := serveUntil
			if web.TLSConfig != nil {
				serve = serveTLSUntil
			}
			return serve(groupCtx, drained, web, &acceptor{Listener: l, log: g.log, most: g.cfg.Listen.MaxConnections, mostOfOne: g.cfg.Listen.MaxConnectionsPerAddress})
		})
	}
	for _, l := range []net.Listener{g.listeners.hooks, g.listeners.shared} {
		if l == nil {
			continue
		}
		group.Go(func() error {
			return serveUntil(groupCtx, drained, agentServer(agents), &acceptor{Listener: l, log: g.log, most: mostLocal, mostOfOne: mostLocal})
		})
	}
	if l := g.listeners.socket; l != nil {
		group.Go(func() error {
			return serveUntil(groupCtx, drained, socketServer(service), &acceptor{Listener: l, log: g.log, most: mostLocal, mostOfOne: mostLocal})
		})
	}
	at := g.listeners.at
	g.log.InfoContext(ctx, "palyrad is ready", slog.String("api", at.API), slog.String("metrics", at.Metrics), slog.String("agents", at.Agents), slog.String("console", at.Console), slog.String("state_dir", g.cfg.StateDir),
		slog.String("ca_fingerprint", canonical.Digest(g.authority.Root().Raw)))
	if ready != nil {
		ready(at)
	}
	return group.Wait()
}

// headerTimeout limits the TLS handshake, and then the header of a request. answerTimeout limits
// the time in which a client reads its metrics, idleTimeout the time between two requests.
const headerTimeout, answerTimeout, idleTimeout = 5 * time.Second, 30 * time.Second, 2 * time.Minute

const maxHeader = 64 << 10

// mostReaders limits the connections to the metrics, which local clients use without
// authentication: palyrad's file descriptors are reserved for the API.
const mostReaders = 64

// mostLocal bounds the connections to the socket of the local operator.
const mostLocal = 64

// agentsSocket is the name of the socket of listen.agents in the units of systemd.
const agentsSocket = "agents"

// listenAgents returns the listener for agents: the service manager's, or palyrad's own.
func listenAgents(ctx context.Context, address string) (net.Listener, error) {
	l, err := socket.Listener(agentsSocket, address)
	if l != nil || err != nil {
		return l, err
	}
	return listen(ctx, address, "listen.agents")
}

func listen(ctx context.Context, address, key string) (net.Listener, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "listening on %s: %w", address, err).
			WithRemedy("Stop the program that uses the port, or set %s to another port.", key)
	}
	return l, nil
}

// evidence holds the gateway's evidence other than events.
type evidence struct {
	*attest.Archive
	snapshots
}

// apiServers returns the servers of the API, of agents on this host, and of the console.
func apiServers(ctx context.Context, g *gateway) (service, agents, web *http.Server, err error) {
	archive := attest.NewArchive(g.stores.attestations, g.notary, func() []attest.CheckpointKey { return journalkey.Certified(g.authority) })
	admin := deviceAdmin(g)
	handler, err := api.New(ctx, api.Config{
		Auth: g.identity.Callers, Tokens: g.tokens, Limiter: g.limiter, Audit: g.auditor, Engine: g.engine, Pipeline: g.pipeline, Router: g.router,
		Desk: g.desk, Runs: g.runs, Journal: g.journal, Evidence: evidence{archive, g.stores.snapshots},
		Policies: dualcontrol.Policies{Policies: policyAdmin(g.policies), Proposer: policyAdmin(g.policies), Gate: g.changing},
		Members:  dualcontrol.Members{Members: memberAdmin(g), Gate: g.changing}, Origins: origins{g.identity.Directory, g.identity.Consents}, Alerts: g.identity.Notices,
		DeviceAdmin: dualcontrol.DeviceAdmin{DeviceAdmin: admin, Members: g.registry.List, Gate: g.changing},
		Devices:     admin, DeviceActs: g.stores.acts, Presence: presenceKeys{g.identity.Directory, g.identity.PresenceKeys, g.identity.Confirmations}, Passkeys: g.passkeys,
		Keys: &keyadmin.Keys{Authority: g.authority, Journal: g.journal, Notary: g.notary},
		Gateway: dualcontrol.Gateway{
			Gateway: control{g}, Gate: g.changing, Frozen: func(ctx context.Context) api.FreezeState { return freezeState(ctx, g) },
		},
		Upstreams: dualcontrol.Upstreams{UpstreamManager: g.upstreams, Gate: g.changing}, UpstreamLogins: g.mcpLogins, Packages: g.packages,
		Skills:   &dualcontrol.Skills{SkillManager: g.skills.registry, Gate: g.changing},
		Pairings: g.pairings, Workspaces: dualcontrol.Workspaces{Undoer: g.changes, Gate: g.changing, Frozen: g.router.Frozen}, Vault: g.vault, Installed: g.installed, Log: g.log,
		Notify: g.notify, ChatUsers: dualcontrol.ChatUsers{Users: g.chatUsers, Gate: g.changing},
		Logins: g.logins, Self: people.Gateway{Root: string(g.authority.RootPEM()), ServerName: serverName},
		Console: g.console, About: consoleAbout(g), OwnerRunsAgents: ownerRunsAgents(g),
		Surfaces: surfaces(g), Issuers: g.issuers, Hosts: func(name string) bool { return slices.Contains(g.cfg.Listen.ServerNames, name) },
	})
	if err != nil {
		return nil, nil, nil, err
	}
	g.lookAgain = handler.LookAgain
	followConsole(g, handler)
	g.identity.Directory.OnChange(func(ctx context.Context, by access.Principal) error {
		return g.policies.Active.Rebuild(ctx, by.String())
	})
	// A revoked device, or one whose member lost permissions, also loses its streams and runs. The
	// streams end first, so that none starts a run after the runs were stopped.
	g.identity.OpenWork.OnEnd(func(d identity.Device, why *reason.Error) {
		attrs := append([]any{slog.String("device", d.ID)}, endCredential(ctx, g, handler, d.ID, d.Principal, why)...)
		if d.Revoked() {
			g.log.InfoContext(ctx, "a device was revoked", attrs...)
			// Such tokens are refused in any case; this ends their open work, and shows the
			// revocation in lists and journal.
			if err := g.tokens.RevokeMadeWith(ctx, d.RevokedBy, d.ID); err != nil {
				g.log.ErrorContext(ctx, "tokens of a revoked device are not marked as revoked", slog.String("device", d.ID), slog.Any("error", err))
			}
			endConsole(ctx, g, d.ID, d.RevokedBy)
			return
		}
		if d.Session() && !time.Now().Before(d.LoginUntil) {
			endConsole(ctx, g, d.ID, d.Principal)
		}
		g.log.InfoContext(ctx, "a member may do less than before", append(attrs, slog.String("note", why.Message))...)
	})
	g.identity.Keys.OnEnd(func(device, key string, why *reason.Error) {
		g.log.InfoContext(ctx, "a key of a device ended", slog.String("device", device), slog.Int("requests", handler.EndKey(device, key, why)))
	})
	endToken := func(t token.Token, why *reason.Error) {
		attrs := append([]any{slog.String("token", t.ID)}, endCredential(ctx, g, handler, t.ID, t.Principal, why)...)
		g.log.InfoContext(ctx, "open work of an ended token was stopped", append(attrs, slog.String("note", why.Message))...)
	}
	g.tokens.OnRevoke(func(t token.Token) {
		endToken(t, reason.Errorf(reason.Unauthenticated, "the token %s was revoked", t.ID).WithRemedy("Create another token: `palyra tokens create`."))
	})
	g.identity.OpenWork.OnCut(func(p access.Principal, why *reason.Error) {
		g.pairings.EndOf(ctx, p)
		for _, t := range g.tokens.HangingOn(p) {
			endToken(t, why)
		}
		handler.EndVouched(p, why)
		g.pipeline.EndCallers(func(c access.Caller) bool { return c.Principal == p && c.Token != nil && c.Token.Issuer != "" }, why)
		endHeld(ctx, g, p)
	})
	if g.tls, err = g.authority.RenewalTLS(slices.Concat(ca.Loopback(), g.cfg.Listen.ServerNames), g.identity.Callers.Allow, g.identity.Callers.AllowExpired); err != nil {
		return nil, nil, nil, err
	}
	service, agents = newServer(handler, g.log), agentServer(newServer(handler.Agents(), g.log))
	service.TLSConfig = g.tls
	web, err = consoleServer(ctx, g, handler, service)
	return service, agents, web, err
}

// newServer returns a server with the limits that apply to all servers with callers.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: cutOff(h, stalledAfter), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), ConnContext: authenticationContext,
	}
}

// endCredential ends the open work of a device or a token, and returns a description for the
// log. The streams end first, so that none starts a run or a call afterwards.
func endCredential(ctx context.Context, g *gateway, handler *api.Server, id string, of access.Principal, why *reason.Error) []any {
	requests, runs := handler.End(id, why), g.runs.EndDevice(id, why)
	calls := g.pipeline.EndCallers(func(c access.Caller) bool { return c.DeviceID == id }, why)
	return []any{
		slog.String("principal", of.String()), slog.Int("requests", requests), slog.Int("runs", runs), slog.Int("calls", calls),
		slog.Int("upstream_instances", endHeld(ctx, g, of)),
	}
}

// endHeld ends state that outlives the calls of a principal, and returns the number of upstream
// server instances ended.
func endHeld(ctx context.Context, g *gateway, p access.Principal) int {
	g.changing.Recheck()
	if err := g.vault.EndOf(context.WithoutCancel(ctx), p); err != nil {
		g.log.ErrorContext(ctx, "the ends of leases are not in the journal", slog.String("principal", p.String()), slog.Any("error", err))
	}
	ended := g.upstreams.Pool.EndOf(p)
	if len(ended) == 0 {
		return 0
	}
	err := g.journal.Record(context.WithoutCancel(ctx), event.UpstreamEnded, journal.Daemon, p.String(), map[string]any{"instances": ended})
	if err != nil {
		g.log.ErrorContext(ctx, "the ends of instances of upstream servers are not in the journal", slog.String("principal", p.String()), slog.Any("error", err))
	}
	return len(ended)
}

// errorsOf returns the function that answers the errors of a guarded route.
func errorsOf(g *gateway, route string) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, r *http.Request, err error) { api.WriteError(w, r, g.log, route, err) }
}

// ownerRunsAgents reports whether agents may run as palyrad's own user. They do not if that is a
// service user with which no agent has connected.
func ownerRunsAgents(g *gateway) func() bool {
	uid := int64(os.Geteuid())
	service := localsocket.ServiceUser(uid) && !slices.Contains(g.cfg.Listen.AgentUIDs, uid)
	return func() bool {
		for _, l := range []net.Listener{g.listeners.agents, g.listeners.hooks, g.listeners.shared} {
			if known, ok := l.(*localsocket.Listener); ok && known.OwnerConnected() {
				return true
			}
		}
		return !service
	}
}

// agentServer serves agents on this host; the listener identifies their processes.
func agentServer(of *http.Server) *http.Server {
	return &http.Server{
		Handler: of.Handler, ReadHeaderTimeout: of.ReadHeaderTimeout, IdleTimeout: of.IdleTimeout, MaxHeaderBytes: of.MaxHeaderBytes, ErrorLog: of.ErrorLog,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return localsocket.AgentContext(authenticationContext(ctx, c), inner(c))
		},
	}
}

// inner returns the connection inside a counted connection, or c itself.
func inner(c net.Conn) net.Conn {
	if counted := countedOf(c); counted != nil {
		return counted.Conn
	}
	return c
}

// surfaces returns the handlers of the guarded routes.
func surfaces(g *gateway) map[string]http.Handler {
	handlers := g.authzen.Handlers()
	for _, pattern := range resource.MetadataRoutes {
		handlers[pattern] = g.issuers.Metadata(api.Origin)
	}
	handlers[hook.Pattern] = hook.Route{Service: g.hooks, Caller: api.CallerOf, Near: api.Near, Fail: errorsOf(g, hook.Pattern)}
	handlers[api.MCPRoute] = g.mcp
	handlers[presenceproof.Route] = webhookVotes(g)
	handlers[api.ApprovalPageRoute] = mcpserver.Page(func() string { return g.listeners.at.Console })
	return handlers
}

// socketServer serves the API on the socket of the local operator: the same handler,
// without TLS.
func socketServer(api *http.Server) *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: api.Handler, Protocols: &protocols, ReadHeaderTimeout: api.ReadHeaderTimeout, IdleTimeout: api.IdleTimeout,
		MaxHeaderBytes: api.MaxHeaderBytes, ErrorLog: api.ErrorLog,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return localsocket.ConnContext(authenticationContext(ctx, c), inner(c))
		},
	}
}

// pairingServer returns the gateway's data for pairing machines. The certificate is the one that
// the next connection gets.
func pairingServer(g *gateway) (pairing.Server, error) {
	if g.tls == nil {
		return pairing.Server{}, reason.Errorf(reason.NotConnected, "the gateway is still starting")
	}
	cert, err := g.tls.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return pairing.Server{}, err
	}
	key, err := pairing.KeySHA256(cert.Leaf.PublicKey)
	return pairing.Server{CA: g.authority.Root().Raw, Name: serverName, Key: key}, err
}

func serveTLSUntil(ctx context.Context, drained <-chan struct{}, s *http.Server, l net.Listener) error {
	return until(ctx, drained, s, func() error { return s.ServeTLS(l, "", "") })
}

func serveUntil(ctx context.Context, drained <-chan struct{}, s *http.Server, l net.Listener) error {
	return until(ctx, drained, s, func() error { return s.Serve(l) })
}

// until serves until ctx ends and the gateway is drained, sends the remaining answers within
// closeTime, and then closes the remaining connections.
func until(ctx context.Context, drained <-chan struct{}, s *http.Server, serve func() error) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		<-drained
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if s.Shutdown(closing) != nil {
			stopped <- s.Close()
			return
		}
		stopped <- nil
	})
	err := serve()
	if stop() {
		// Serve ended unexpectedly.
		return fmt.Errorf("serving: %w", err)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, <-stopped)
	}
	return <-stopped
}

// local returns the location of the local operator's bundle and the server address for it.
func local(g *gateway) identity.LocalConfig {
	return identity.LocalConfig{Dir: statedir.Operator(g.cfg.StateDir), Address: reachable(g.listeners.at.API), ServerName: serverName}
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

// keepTokens stores the times of the last use of tokens until ctx ends.
func keepTokens(ctx context.Context, g *gateway) error {
	return g.tokens.Run(ctx, func(err error) {
		g.log.WarnContext(ctx, "noting when tokens were last used", slog.String("error", err.Error()))
	})
}

// keepIdentity renews certificates until ctx ends.
func keepIdentity(ctx context.Context, g *gateway) error {
	renewed := func() error {
		key := g.authority.Notary.Key()
		return g.notary.Use(key.Signer, key.Chain)
	}
	failed := func(err error) { g.log.ErrorContext(ctx, "renewing certificates", slog.String("error", err.Error())) }
	return g.identity.Local.Run(ctx, local(g), renewed, failed)
}

// openConsole opens the listener of the console, and creates its login service.
func openConsole(ctx context.Context, g *gateway) (err error) {
	c := console.Config{
		Hosts: func(name string) bool { return slices.Contains(g.cfg.Listen.ServerNames, name) }, Members: g.identity.Callers,
		Journal: func(ctx context.Context, drafts ...event.Draft) error {
			_, err := g.journal.Append(ctx, drafts...)
			return err
		},
		Allow: func(address string) (bool, time.Duration) {
			return g.limiter.AllowStranger(api.LimitLogin, limit.Address(address))
		},
		LogOut:  g.identity.Logins.LogOut,
		Refused: g.auditor.Refused, Idle: g.cfg.Console.Idle, Life: g.cfg.Console.Session, Log: g.log,
	}
	if g.cfg.Listen.Console != "" {
		if g.listeners.console, err = listen(ctx, g.cfg.Listen.Console, "listen.console"); err != nil {
			return err
		}
		addListener(g, g.listeners.console)
		if c.Files, err = assets.Files(); err != nil {
			return fmt.Errorf("reading the pages of the console: %w", err)
		}
		if c.Origin, err = console.Keep(statedir.Console(g.cfg.StateDir), g.cfg.Console.Origin, g.listeners.console.Addr(), g.log); err != nil {
			return err
		}
		g.listeners.at.Console = c.Origin
		if err := g.passkeys.At(c.Origin); err != nil {
			return err
		}
	}
	if g.cfg.OIDC.Issuer != "" {
		c.Provider = g.logins
	}
	g.console, err = console.New(c)
	return err
}

// consoleAbout describes the gateway for the pages of the console.
func consoleAbout(g *gateway) people.About {
	about := people.About{
		ID: g.authority.TrustDomain(), Version: version.Get().Version, Fingerprint: canonical.Digest(g.authority.Root().Raw),
		Frozen: func(ctx context.Context) bool {
			_, frozen := g.desk.Freezer.Frozen(ctx)
			return frozen
		},
		Pending: func() int { return g.desk.Counts().Pending }, Settings: g.cfg, Origins: g.origins,
		Examine: func(ctx context.Context) (list []people.CheckResult) {
			for _, e := range doctor.Examine(ctx, examined(g.cfg)) {
				list = append(list, people.CheckResult{Check: e.Name, Result: e.Result, Detail: e.Detail, Remedy: e.Remedy, TookMS: e.TookMS})
			}
			return list
		},
	}
	about.Name, _ = os.Hostname() // for display only
	if len(g.cfg.Models) > 0 {
		about.Features = append(about.Features, "models")
	}
	if g.cfg.OIDC.Issuer != "" {
		about.Features = append(about.Features, "oidc")
	}
	return about
}

// followConsole ends the open work of sessions that end, and of sessions whose device was revoked.
func followConsole(g *gateway, handler *api.Server) {
	g.console.Sessions.OnEnd(func(s console.Session, why *reason.Error) { handler.EndSession(s.Device, s.ID, why) })
}

// endConsole ends the sessions that were started with a device.
func endConsole(ctx context.Context, g *gateway, device string, by access.Principal) {
	if n := g.console.EndDevice(ctx, device, by, "the device "+device+" was revoked, or logged out"); n > 0 {
		g.log.InfoContext(ctx, "sessions of the console ended with their device", slog.String("device", device), slog.Int("sessions", n))
	}
}

// consoleServer serves the console: over TLS, or over plain HTTP to this machine.
func consoleServer(ctx context.Context, g *gateway, handler *api.Server, of *http.Server) (*http.Server, error) {
	site := g.console.Site(api.Listed(g.console.Handlers()), handler.Console())
	server := &http.Server{
		Handler: cutOff(site, stalledAfter), ReadHeaderTimeout: of.ReadHeaderTimeout, IdleTimeout: of.IdleTimeout,
		MaxHeaderBytes: of.MaxHeaderBytes, ErrorLog: of.ErrorLog, ConnContext: of.ConnContext,
	}
	if !g.cfg.Console.TLS() || g.cfg.Listen.Console == "" {
		return server, nil
	}
	source, err := consoleCertificate(ctx, g)
	if err != nil {
		return nil, err
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: source}
	return server, nil
}

// consoleCertificate returns the source of the console's TLS certificate. The CA of devices does
// not sign it: browsers would have to trust that CA.
func consoleCertificate(ctx context.Context, g *gateway) (certificate.Source, error) {
	c := g.cfg.Console
	if !c.OwnCA {
		return certificate.Files(c.CertificateFile, c.KeyFile, func(err error) {
			g.log.ErrorContext(ctx, "the certificate of the console changed and cannot be read; the one before it stays", slog.String("error", err.Error()))
		})
	}
	origin, err := console.ParseOrigin(g.console.Origin)
	if err != nil {
		return nil, err
	}
	dir := statedir.ConsoleCA(g.cfg.StateDir)
	source, made, err := certificate.Own(dir, []string{origin.Name()})
	if made {
		g.log.WarnContext(ctx, "a CA for the console was made: browsers have to trust it", slog.String("console", g.console.Origin), slog.String("file", filepath.Join(dir, certificate.RootFile)))
	}
	return source, err
}
