package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/agent/watch"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/login"
	"palyra/internal/identity/pairing"
	"palyra/internal/identity/passkeys"
	"palyra/internal/identity/token"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/run"
	"palyra/internal/run/model"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/deliveries"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/things"
	"palyra/internal/surface/console"
	"palyra/internal/surface/notify"
	"palyra/internal/vault"
	"palyra/internal/vault/kek/kektest"
)

// world is the API over real services, behind TLS with HTTP/2. alice owns the agent coder, bob
// is an operator, dan a developer, eve an auditor.
type world struct {
	// serviceUser is true if palyrad's user runs no agents.
	serviceUser bool
	pairings    *pairing.Host
	t           *testing.T
	url         string
	authority   *ca.Authority
	db          *sqlite.DB
	identity    *identity.Service
	registry    *access.Registry
	engine      *policy.Engine
	desk        *approval.Desk
	journal     *journal.Log
	notary      *attest.Notary
	server      *api.Server
	// stopping starts the API's shutdown; stopRuns ends the runs after it.
	stopping, stopRuns context.CancelFunc

	read, run *gatewaytest.Probe
	router    *dispatch.Router
	audit     *audit
	gateway   *gatewayFake
	evidence  *evidence
	model     *modelFake
	// workspaces has one change set, "set-1" of "default".
	workspaces *workspacesFake
	log        *gatewaytest.Log
	tokens     *token.Service
	vault      *vault.Service
	wrapper    *vault.Wrapper
	// people configures the logins of users; the zero value disables them.
	people login.Config
	logins *login.Service

	alice, bob, dan, eve, coder *client

	// ago is the duration by which the clock of certificates is behind.
	ago atomic.Int64

	// surfaces are the handlers of guarded routes. agents is the URL that serves only them, over
	// plain HTTP.
	surfaces map[string]http.Handler
	agents   string
	// console serves browsers at its own address.
	console   *console.Console
	consoleAt net.Listener
	// examining is called while the doctor runs.
	examining func()

	policies string
	// checking is called while policies are checked.
	checking func()
	limits   map[limit.Class]limit.Rates
	// issuers are the issuers whose tokens the guarded routes accept.
	issuers api.AccessTokens
	// skillsDir contains the packages of skills.
	skillsDir string
	// passkeys are the members' passkeys; agentConnected is whether an agent has connected.
	passkeys       *passkeys.Keeper
	agentConnected bool
	firstWait      time.Duration // as in api.Config
}

func (w *world) now() time.Time { return time.Now().Add(-time.Duration(w.ago.Load())) }

func newWorld(t *testing.T, setup ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, read: gatewaytest.NewProbe(policytest.Read), run: gatewaytest.NewProbe(policytest.Run),
		audit: &audit{}, gateway: &gatewayFake{}, model: &modelFake{}, workspaces: newWorkspacesFake(), log: &gatewaytest.Log{}, limits: generous(),
	}
	w.read.PathOfInput = true
	for _, fn := range setup {
		fn(w)
	}
	w.openRooms()
	w.serve()
	w.alice = w.admit(access.User("alice"), access.Principal{}, access.RoleOwner)
	w.bob = w.admit(access.User("bob"), access.Principal{}, access.RoleOperator)
	w.dan = w.admit(access.User("dan"), access.Principal{}, access.RoleDeveloper)
	w.eve = w.admit(access.User("eve"), access.Principal{}, access.RoleAuditor)
	w.coder = w.admit(access.Agent("coder"), access.User("alice"), access.RoleAgent)
	w.engine.Swap(w.policySet(must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)))
	return w
}

func (w *world) openRooms() {
	t := w.t
	t.Helper()
	var err error
	if w.authority, _, err = ca.Open(filepath.Join(t.TempDir(), "ca"), ca.Options{Now: w.now}); err != nil {
		t.Fatal(err)
	}
	w.db = sqlitetest.Open(t)
	registry := must.Get(access.NewRegistry(t.Context(), sqlite.NewIdentity(w.db), nil))(t)
	w.identity = must.Get(identity.New(t.Context(), identity.Config{
		Guard:     change.Unguarded,
		Authority: w.authority, Store: sqlite.NewIdentity(w.db), Registry: registry, Now: w.now,
	}))(t)
	w.tokens = must.Get(token.New(t.Context(), token.Config{Store: sqlite.NewTokens(w.db), Members: registry}))(t)
	w.registry = registry
	w.people.Members, w.people.Log, w.people.Now = w.identity.Logins, slog.New(slog.DiscardHandler), w.now
	w.people.Refused = func(ctx context.Context, source string) {
		w.audit.Refused(ctx, source, api.CompleteLoginProcedure, reason.LoginRefused)
	}
	w.logins = must.Get(login.New(w.people))(t)
	key := w.authority.Notary.Key()
	w.notary = must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key.Signer, Chain: key.Chain, Gateway: w.authority.TrustDomain()}))(t)
	signer := must.Get(journal.ParseKey(w.authority.Journal.Signer()))(t)
	w.journal = must.Get(journal.New(w.db, journal.Options{Key: signer}))(t)
	w.engine = &policy.Engine{}
	keys, _ := kektest.New(t)
	w.wrapper = vault.NewWrapper(keys, sqlite.NewSecrets(w.db))
	w.vault = must.Get(vault.New(vault.Config{Store: sqlite.NewSecrets(w.db), Keys: w.wrapper, Judge: things.Judge{Engine: w.engine}, Holders: oneHolder}))(t)
}

// policySet returns the policy set for the members.
func (w *world) policySet(members []access.Member) *policy.Set {
	w.t.Helper()
	cfg := policy.Config{
		Tools: []tool.Descriptor{policytest.Read, policytest.Run}, Members: members, Workspaces: []string{"default"},
		Snapshot: policy.Snapshot{MaxCallsPerRun: 200},
	}
	if w.policies != "" {
		cfg.Sources = []policy.Source{{Name: "secret-rules.cedar", Text: w.policies}}
	}
	return must.Get(policy.Load(cfg))(w.t)
}

func (w *world) serve() {
	t := w.t
	t.Helper()
	g := gatewaytest.New(t, gatewaytest.Config{
		DB: w.db, Engine: w.engine, Notary: w.notary, Tools: []tool.Runnable{w.read, w.run}, MaxCallsPerRun: 200, MaxCallsPerSession: 1000,
	})
	w.desk, w.router = g.Desk, g.Router
	runs := w.openRuns(g)
	limiter := must.Get(limit.NewLimiter(w.limits))(t)
	w.evidence = &evidence{db: w.db, notary: w.notary}
	logger := w.log.Logger()
	stopping, stop := context.WithCancel(context.Background())
	w.stopping = stop
	w.server = must.Get(api.New(stopping, api.Config{
		Auth: w.identity.Callers, Tokens: w.tokens, Limiter: limiter, Audit: w.audit, FirstWait: w.firstWait, Engine: w.engine, Pipeline: g.Pipeline, Router: g.Router, Desk: w.desk, Runs: runs,
		Journal: w.journal, Evidence: w.evidence, Policies: policiesFake{w}, Members: newMembersFake(w), DeviceAdmin: newMembersFake(w), Origins: originsFake{w.identity.Directory, w.identity.Consents}, Alerts: w.identity.Notices, Pairings: w.openPairings(), Gateway: w.gateway, Devices: devicesFake{w.registry, w.identity.Directory, w.identity.Keys}, DeviceActs: w.db, Presence: presenceFake{w.identity.Directory, w.identity.PresenceKeys, w.identity.Confirmations}, Passkeys: w.openPasskeys(),
		Keys: &keyadmin.Keys{Authority: w.authority, Journal: w.journal, Notary: w.notary}, Workspaces: w.workspaces, Vault: w.vault, Skills: w.openSkills(), Upstreams: noUpstreams{}, Packages: noUpstreams{}, Notify: notify.New(notify.Config{Store: deliveries.New(w.db), Log: logger}), ChatUsers: must.Get(notify.NewUsers(t.Context(), deliveries.New(w.db), w.registry, w.identity.Consents, change.Unguarded, w.now))(t), UpstreamLogins: oauth.New(oauth.Config{}), Log: logger,
		Installed:       must.Get(watch.New(t.Context(), sqlite.NewInstalled(w.db), logger, w.now))(t),
		OwnerRunsAgents: func() bool { return !w.serviceUser },
		Console:         w.openConsole(), About: people.About{ID: "gateway.test", Version: "test", Frozen: func(context.Context) bool { return false }, Pending: func() int { return w.desk.Counts().Pending },
			Settings: config.Default(), Examine: func(ctx context.Context) []people.CheckResult {
				if w.examining != nil {
					w.examining()
				}
				return []people.CheckResult{{Check: "clock", Result: "ok", Detail: "fine", TookMS: 1}}
			}},
		Logins: w.logins, Self: people.Gateway{Root: string(w.authority.RootPEM()), ServerName: "localhost"},
		Surfaces: w.surfaces, Hosts: func(name string) bool { return name == "gateway.test" }, Issuers: w.issuers,
	}))(t)
	w.identity.Directory.OnChange(func(context.Context, access.Principal) error {
		w.engine.Swap(w.policySet(w.registry.List()))
		return nil
	})
	w.identity.OpenWork.OnEnd(func(d identity.Device, why *reason.Error) { w.server.End(d.ID, why) })
	w.tokens.OnRevoke(func(t token.Token) {
		w.server.End(t.ID, reason.Errorf(reason.Unauthenticated, "the token was revoked"))
	})
	w.listen()
}

// openRuns starts a run manager that stops when the test ends.
func (w *world) openRuns(g *gatewaytest.Gateway) *run.Manager {
	w.t.Helper()
	runs := must.Get(run.New(run.Config{
		Calls: g, Models: map[string]model.Provider{"fake": w.model}, DefaultModel: "fake",
		Catalog: func(access.Caller) []tool.Descriptor { return g.Router.Descriptors() },
		Store:   sqlite.NewRuns(w.db), Approvals: w.desk.Records,
		Limits: run.Limits{
			Budget:             run.Budget{Calls: 200, Tokens: 1_000_000, WallClock: time.Hour},
			ActivePerPrincipal: 100, ParallelCalls: 4, AbandonedAfter: 30 * time.Minute,
		},
	}))(w.t)
	w.stopRuns = must.Run(w.t, func(ctx context.Context) error { return runs.Run(ctx, 0) })
	return runs
}

// listen serves on TLS. The handshake accepts every certificate of the gateway's root, so that
// a test can observe the API's own refusals.
func (w *world) listen() {
	w.t.Helper()
	server := httptest.NewUnstartedServer(w.server)
	anybody := func([]*x509.Certificate) error { return nil }
	server.TLS = must.Get(w.authority.RenewalTLS(ca.Loopback(), anybody, anybody))(w.t)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	w.t.Cleanup(func() {
		w.stopping()
		server.CloseClientConnections()
		server.Close()
	})
	// The URL has the address, because "localhost" may resolve to another process's port on ::1.
	w.url = "https://" + server.Listener.Addr().String()
	agents := httptest.NewServer(w.server.Agents())
	w.t.Cleanup(agents.Close)
	w.agents = agents.URL
}

// client is a client with a device.
type client struct {
	w      *world
	device string
	http   *http.Client
}

// deviceOf returns a member as the caller of its device.
func (w *world) deviceOf(p access.Principal) access.Caller {
	for _, d := range w.identity.Directory.Devices() {
		if d.Principal == p {
			return access.Caller{Principal: p, OnBehalfOf: p, DeviceID: d.ID, Paired: true}
		}
	}
	w.t.Fatalf("%s has no device", p)
	return access.Caller{}
}

// admit adds a member and returns its client.
func (w *world) admit(p, owner access.Principal, roles ...access.Role) *client {
	w.t.Helper()
	key, csr := request(w.t)
	a := must.Get(w.identity.Members.AddMember(w.t.Context(), identity.Daemon(), p.Name, p.Kind, roles, owner, csr, true))(w.t)
	if a.Member.AwaitsConsent {
		must.Get(w.identity.Consents.ConsentToAgent(w.t.Context(), w.deviceOf(owner), identity.Consent{Agent: p.String()}))(w.t)
	}
	return w.connect(a.Device.ID, certificate(a.Certificate.Chain, key))
}

func request(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func certificate(chain []*x509.Certificate, key *ecdsa.PrivateKey) *tls.Certificate {
	c := &tls.Certificate{PrivateKey: key}
	for _, link := range chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	return c
}

// connect returns a client that presents a certificate, or none.
func (w *world) connect(device string, cert *tls.Certificate) *client {
	w.t.Helper()
	var get func() (*tls.Certificate, error)
	if cert != nil {
		get = func() (*tls.Certificate, error) { return cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: ca.ClientTLS(w.authority.Root(), "localhost", get), ForceAttemptHTTP2: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &client{w: w, device: device, http: &http.Client{Transport: transport}}
}

func (c *client) gateway(opts ...connect.ClientOption) palyrav1connect.GatewayServiceClient {
	return palyrav1connect.NewGatewayServiceClient(c.http, c.w.url, opts...)
}

func (c *client) approvals(opts ...connect.ClientOption) palyrav1connect.ApprovalsServiceClient {
	return palyrav1connect.NewApprovalsServiceClient(c.http, c.w.url, opts...)
}

func (c *client) policy(opts ...connect.ClientOption) palyrav1connect.PolicyServiceClient {
	return palyrav1connect.NewPolicyServiceClient(c.http, c.w.url, opts...)
}

func (c *client) journal(opts ...connect.ClientOption) palyrav1connect.JournalServiceClient {
	return palyrav1connect.NewJournalServiceClient(c.http, c.w.url, opts...)
}

func (c *client) status(opts ...connect.ClientOption) palyrav1connect.StatusServiceClient {
	return palyrav1connect.NewStatusServiceClient(c.http, c.w.url, opts...)
}

// call makes a call and collects the messages of its stream.
func (c *client) call(req *palyrav1.CallToolRequest, opts ...connect.ClientOption) ([]*palyrav1.CallToolResponse, error) {
	c.w.t.Helper()
	stream, err := c.gateway(opts...).CallTool(c.w.t.Context(), req)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var list []*palyrav1.CallToolResponse
	for stream.Receive() {
		list = append(list, stream.Msg())
	}
	return list, stream.Err()
}

func reading() *palyrav1.CallToolRequest {
	return &palyrav1.CallToolRequest{Tool: "fs.read", InputJson: []byte(`{"path":"a"}`)}
}

func running() *palyrav1.CallToolRequest {
	return &palyrav1.CallToolRequest{Tool: "process.run", InputJson: []byte(`{"argv":["make"]}`)}
}

// protocols are the protocols that clients of the handler may use.
var protocols = map[string][]connect.ClientOption{
	"connect":      nil,
	"connect json": {connect.WithProtoJSON()},
	"grpc":         {connect.WithGRPC()},
	"grpc-web":     {connect.WithGRPCWeb()},
}

// wantError checks an error of the API: its code, and the ErrorInfo that every
// error carries.
func wantError(t *testing.T, what string, err error, want reason.Code) *errdetails.ErrorInfo {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: %v, want %s", what, err, want)
		return nil
	}
	for _, d := range e.Details() {
		value, err := d.Value()
		if info, ok := value.(*errdetails.ErrorInfo); ok && err == nil {
			if info.GetReason() != string(want) || info.GetDomain() != api.ErrorDomain || info.GetMetadata()["remedy"] == "" {
				t.Errorf("%s: %v with %v, want %s", what, e, info, want)
			}
			return info
		}
	}
	t.Errorf("%s: %v (%s) carries no ErrorInfo, want %s", what, e, e.Code(), want)
	return nil
}

func generous() map[limit.Class]limit.Rates {
	limits := map[limit.Class]limit.Rates{}
	for _, class := range []limit.Class{api.LimitRead, api.LimitMutate, api.LimitDecide, api.LimitToolCall, api.LimitRun, api.LimitSecret, api.LimitPairing, api.LimitLogin} {
		l := limit.Limit{PerSecond: 1000, Burst: 1000}
		limits[class] = limit.Rates{Each: l, Global: l}
	}
	return limits
}
