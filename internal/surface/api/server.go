// Package api implements the API: handlers for every service of palyra.v1, the access table
// with the requirements of each method (methods.go), the guard that applies it (guard.go) and
// the map of errors (errors.go). One handler serves Connect, gRPC and gRPC-Web.
package api

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"

	"palyra/gen/grpc/health/v1/healthv1connect"
	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/agent/watch"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/login"
	"palyra/internal/identity/pairing"
	"palyra/internal/run"
	"palyra/internal/surface/api/check"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/api/things"
	"palyra/internal/surface/console"
	"palyra/internal/surface/notify"
	"palyra/internal/vault"
)

// MaxMessage is the largest request message in bytes.
const MaxMessage = 4 << 20

// compressFrom is the size in bytes from which a message is compressed if the client accepts
// it. Below this size, compressing costs more than it saves: most clients are on this machine,
// and an event of a call has a few hundred bytes.
const compressFrom = 16 << 10

// Config holds the dependencies of the API. Every field is required, unless its comment states
// a default.
type Config struct {
	Auth     Authenticator
	Tokens   Tokens
	Limiter  Limiter
	Audit    Auditor
	Engine   *policy.Engine
	Pipeline *call.Pipeline
	// FirstWait is the timeout for the first message of a run's stream. 0 means 10 s.
	FirstWait time.Duration
	Router    *dispatch.Router
	Desk      *approval.Desk
	Runs      *run.Manager
	Journal   *journal.Log
	Evidence  Evidence
	Policies  Policies
	Members   Members
	Origins   Origins
	Alerts    Alerts
	// DeviceAdmin changes devices, and Devices lists them. DeviceActs has their acts, and Keys
	// the gateway's own keys.
	DeviceAdmin DeviceAdmin
	Devices     people.Devices
	DeviceActs  people.Acts
	Keys        things.Keys
	Pairings    *pairing.Host
	// Presence stores the presence keys of devices, and Passkeys of members.
	Presence presenceproof.Devices
	Passkeys Passkeys
	Gateway  Gateway
	// Logins is the login service; Self describes the gateway to its clients.
	Logins *login.Service
	Self   people.Gateway
	Vault  *vault.Service
	// Console manages the sessions of the web console, About describes the gateway to its pages.
	Console *console.Console
	About   people.About
	// OwnerRunsAgents reports whether agents may run as the user that palyrad runs as.
	OwnerRunsAgents func() bool
	// Upstreams are the upstream MCP servers.
	Upstreams things.UpstreamManager
	// UpstreamLogins are the gateway's own logins at the upstream servers.
	UpstreamLogins things.Logins
	// Packages are the packages that contain upstream servers.
	Packages things.Packages
	// Skills are the packages of WebAssembly tools.
	Skills things.SkillManager
	// Installed monitors the entries that were installed into agents.
	Installed *watch.Watcher
	// Notify delivers notifications, and ChatUsers maps chat users to members.
	Notify    *notify.Service
	ChatUsers things.Users
	// Workspaces are the declared workspaces and their change sets.
	Workspaces Workspaces
	// Surfaces are the handlers of guarded routes by their patterns (Routes). Hosts reports whether
	// clients may reach the gateway by a name, in addition to loopback names.
	Surfaces map[string]http.Handler
	Hosts    func(name string) bool
	// Issuers validates tokens of other issuers for guarded routes; nil accepts none.
	Issuers AccessTokens
	Log     *slog.Logger
}

// Server is the handler of the whole API.
type Server struct {
	handler http.Handler
	// agents serves the guarded routes alone.
	agents http.Handler
	// console serves only the API, to console sessions.
	console http.Handler
	live    liveRequests
	guard   *guard
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Agents returns the handler for the listener of agents on this host. It serves the guarded routes
// and nothing else of the API.
func (s *Server) Agents() http.Handler { return s.agents }

// Console returns the handler for the console's listener (console.Console.Site). It serves only the
// API, to console sessions.
func (s *Server) Console() http.Handler { return s.console }

// End ends the requests and streams of a device or token that was revoked, or whose member lost
// permissions, and returns their number. They end with why, whose reason is UNAUTHENTICATED; a call
// with an idempotency key continues without its client.
func (s *Server) End(id string, why error) int { return s.live.end(id, why) }

// EndKey ends the requests and streams that a device opened with a key, and returns their number.
func (s *Server) EndKey(device, keySHA256 string, why error) int {
	return s.live.endKey(device, keySHA256, why)
}

// EndSession ends the requests and streams of a console session, and returns their number.
func (s *Server) EndSession(device, session string, why error) int {
	return s.live.endKey(device, session, why)
}

// EndVouched ends the requests that a member made with tokens of other issuers when the member lost
// permissions, and returns their number.
func (s *Server) EndVouched(p access.Principal, why error) int { return s.live.endVouched(p, why) }

// LookAgain ends the streams and requests whose callers lost their permission. It must be called
// when another policy set comes into force.
func (s *Server) LookAgain() { s.guard.streams.look() }

// New returns the API server. When stopping ends, watching streams end too, so that they do not
// delay a shutdown.
func New(stopping context.Context, cfg Config) (*Server, error) {
	rules, err := check.ReadRules(palyrav1.File_palyra_v1_gateway_proto.Package())
	if err != nil {
		return nil, fmt.Errorf("reading the field rules: %w", err)
	}
	asked := &approvals{prompts: prompts{cfg.Desk, cfg.Pipeline}, engine: cfg.Engine}
	if asked.presence, err = presenceproof.New(cfg.Self.Root, cfg.Presence, cfg.Passkeys, asked, cfg.OwnerRunsAgents, callerOf); err != nil {
		return nil, err
	}
	g := &guard{engine: cfg.Engine, limiter: cfg.Limiter, audit: cfg.Audit, rules: rules, log: cfg.Log, standing: cfg.Pipeline.Standing}
	opts := []connect.HandlerOption{
		connect.WithInterceptors(g, check.Interceptor{}), connect.WithReadMaxBytes(MaxMessage), connect.WithCompressMinBytes(compressFrom), codecs(),
	}
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewGatewayServiceHandler(&gateway{
		prompts: asked.prompts, guard: g, router: cfg.Router, engine: cfg.Engine, runs: cfg.Runs, presence: asked.presence, stopping: stopping.Done(), firstWait: cmp.Or(cfg.FirstWait, firstWait),
	}, opts...))
	mux.Handle(palyrav1connect.NewApprovalsServiceHandler(asked, opts...))
	mux.Handle(palyrav1connect.NewPolicyServiceHandler(&policies{admin: cfg.Policies, evidence: cfg.Evidence, engine: cfg.Engine, pipeline: cfg.Pipeline}, opts...))
	mux.Handle(palyrav1connect.NewJournalServiceHandler(&journalService{cfg.Journal, cfg.Evidence}, opts...))
	mux.Handle(palyrav1connect.NewAttestationServiceHandler(&attestations{cfg.Evidence, cfg.Engine}, opts...))
	mux.Handle(palyrav1connect.NewStatusServiceHandler(&status{cfg.Gateway, cfg.Alerts, cfg.Passkeys, cfg.ChatUsers, cfg.Journal, cfg.Engine}, opts...))
	mux.Handle(palyrav1connect.NewAccessServiceHandler(&members{cfg.Members, cfg.Origins, cfg.Engine}, opts...))
	mux.Handle(palyrav1connect.NewIdentityServiceHandler(&devices{cfg.DeviceAdmin}, opts...))
	mux.Handle(palyrav1connect.NewWorkspaceServiceHandler(&workspaces{cfg.Workspaces, cfg.Pipeline}, opts...))
	mux.Handle(palyrav1connect.NewSessionServiceHandler(&sessions{cfg.Pipeline, cfg.Engine, cfg.Pipeline.MaxCallsPerSession}, opts...))
	mux.Handle(palyrav1connect.NewTokenServiceHandler(&tokens{cfg.Tokens, cfg.Engine}, opts...))
	mux.Handle(palyrav1connect.NewAccessReviewServiceHandler(&people.ReviewService{
		Engine: cfg.Engine, Members: cfg.Members, Tools: cfg.Router, Ceilings: cfg.Policies, Methods: reviewed(), Caller: callerOf,
	}, opts...))
	mux.Handle(palyrav1connect.NewPairingServiceHandler(&people.PairingService{
		Host: cfg.Pairings, Engine: cfg.Engine, Members: cfg.Members, Caller: callerOf, Connection: connectionOf,
	}, append(slices.Clone(opts), connect.WithReadMaxBytes(people.MaxMessage))...))
	mux.Handle(palyrav1connect.NewLoginServiceHandler(&people.LoginService{
		Logins: cfg.Logins, Gateway: cfg.Self, LogOut: cfg.DeviceAdmin.LogOut, Caller: callerOf, Address: addressOf,
	}, opts...))
	mux.Handle(palyrav1connect.NewDeviceServiceHandler(&people.DeviceService{
		Engine: cfg.Engine, Devices: cfg.Devices, Acts: cfg.DeviceActs, Caller: callerOf,
	}, opts...))
	mux.Handle(palyrav1connect.NewKeyServiceHandler(&things.KeyService{Keys: cfg.Keys, Devices: cfg.Devices, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewPresenceServiceHandler(asked.presence, opts...))
	mux.Handle(palyrav1connect.NewMcpServiceHandler(&things.UpstreamService{Manager: cfg.Upstreams, Logins: cfg.UpstreamLogins, Packages: cfg.Packages, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewSkillServiceHandler(&things.SkillService{Manager: cfg.Skills, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewVaultServiceHandler(&things.SecretService{Vault: cfg.Vault, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewInstallServiceHandler(&things.InstallService{Installed: cfg.Installed, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewNotifyServiceHandler(&things.NotifyService{Notify: cfg.Notify, Users: cfg.ChatUsers, Caller: callerOf}, opts...))
	mux.Handle(palyrav1connect.NewConsoleServiceHandler(&people.ConsoleService{
		Console: cfg.Console, About: cfg.About, Engine: cfg.Engine, Caller: callerOf, Session: sessionOf, Withheld: withheld(),
		Journal: cfg.Journal, Approval: asked.current,
	}, opts...))
	mux.Handle(healthv1connect.HealthCheckProcedure, newHealthHandler(cfg.Gateway, opts...))
	mux.Handle(newReflectionHandler("v1", opts...))
	mux.Handle(newReflectionHandler("v1alpha", opts...))
	s := &Server{guard: g}
	routes := newSurfaces(g, cfg.Surfaces, cfg.Hosts, cfg.Log)
	api := g.refuseStrangers(limitMessages(stoppable(bundle(endWatches(stopping, offered(mux))))))
	by := credentials{cfg.Auth, cfg.Tokens, cfg.Issuers}
	s.handler = identify(by, &s.live, cfg.Log, routes.beside(api))
	s.console = identify(by, &s.live, cfg.Log, api)
	s.agents = identify(by, &s.live, cfg.Log, routes.beside(http.NotFoundHandler()))
	return s, nil
}

// services lists every service that the API offers, for reflection.
var services = []string{
	palyrav1connect.GatewayServiceName,
	palyrav1connect.ApprovalsServiceName,
	palyrav1connect.PolicyServiceName,
	palyrav1connect.JournalServiceName,
	palyrav1connect.AttestationServiceName,
	palyrav1connect.StatusServiceName,
	palyrav1connect.AccessServiceName,
	palyrav1connect.IdentityServiceName,
	palyrav1connect.WorkspaceServiceName,
	palyrav1connect.SessionServiceName,
	palyrav1connect.TokenServiceName,
	palyrav1connect.AccessReviewServiceName,
	palyrav1connect.InstallServiceName,
	palyrav1connect.NotifyServiceName,
	palyrav1connect.DeviceServiceName,
	palyrav1connect.KeyServiceName,
	palyrav1connect.PresenceServiceName,
	palyrav1connect.PairingServiceName,
	palyrav1connect.LoginServiceName,
	palyrav1connect.VaultServiceName, palyrav1connect.McpServiceName, palyrav1connect.SkillServiceName, palyrav1connect.ConsoleServiceName,
	healthv1connect.HealthName,
}

// watches are the streams that have no end of their own.
var watches = map[string]bool{
	palyrav1connect.ApprovalsServiceWatchApprovalsProcedure: true,
	palyrav1connect.JournalServiceTailEventsProcedure:       true,
	palyrav1connect.ConsoleServiceWatchConsoleProcedure:     true,
	palyrav1connect.GatewayServiceWatchRunProcedure:         true,
}

// endWatches ends the watching streams when stopping ends.
func endWatches(stopping context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !watches[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(stopping, func() {
			cancel(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
		})()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
