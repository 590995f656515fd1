package rpc_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/approval/approvaltest"
	"palyra/internal/attest"
	"palyra/internal/dispatch"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/model"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
	"palyra/internal/ratelimit"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/run"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

// world is the API over real rooms, behind TLS with HTTP/2: alice owns the
// agent coder, bob is an operator, dan a developer, eve an auditor.
type world struct {
	t         *testing.T
	url       string
	authority *ca.Authority
	db        *sqlite.DB
	identity  *identity.Service
	engine    *policy.Engine
	desk      *approval.Desk
	journal   *journal.Log
	notary    *attest.Notary
	server    *rpc.Server
	// stopping is the order to stop; stopRuns ends the runs after it.
	stopping, stopRuns context.CancelFunc

	read, run *probe
	audit     *audit
	gateway   *gatewayFake
	evidence  *evidence
	model     *modelFake
	// workspaces has one change set, "set-1" of "default".
	workspaces *workspacesFake
	log        *logBuffer

	alice, bob, dan, eve, coder *client

	policies string
	limits   map[ratelimit.Class]ratelimit.Limits
}

// emptyStore is a migrated store: with the race detector, migrating takes
// longer than most tests.
var emptyStore []byte

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "empty.db")
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err == nil {
		err = db.Close(context.Background())
	}
	if err == nil {
		emptyStore, err = os.ReadFile(path)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func newWorld(t *testing.T, setup ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, read: &probe{descriptor: policytest.Read}, run: &probe{descriptor: policytest.Run},
		audit: &audit{}, gateway: &gatewayFake{}, model: &modelFake{}, workspaces: newWorkspacesFake(), log: &logBuffer{}, limits: generous(),
	}
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
	w.engine.Swap(w.policySet(must[[]access.Member](t)(w.db.Identity().Members(t.Context()))))
	return w
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *world) openRooms() {
	t := w.t
	t.Helper()
	var err error
	if w.authority, _, err = ca.Open(filepath.Join(t.TempDir(), "ca"), ca.Options{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "palyra.db")
	if err := os.WriteFile(path, emptyStore, 0o600); err != nil {
		t.Fatal(err)
	}
	w.db = sqlitetest.OpenAt(t, path, sqlite.Options{})
	registry := must[*access.Registry](t)(access.NewRegistry(t.Context(), w.db.Identity(), nil))
	w.identity = must[*identity.Service](t)(identity.New(t.Context(), identity.Config{
		Authority: w.authority, Store: w.db.Identity(), Registry: registry,
	}))
	key := w.authority.Notary()
	w.notary = must[*attest.Notary](t)(attest.NewNotary(attest.NotaryConfig{Signer: key.Signer, Chain: key.Chain, Gateway: w.authority.TrustDomain()}))
	signer := must[*journal.Key](t)(journal.ParseKey(w.authority.JournalSigner()))
	w.journal = must[*journal.Log](t)(journal.New(w.db, journal.Options{Key: signer}))
	w.engine = &policy.Engine{}
	w.desk = approvaltest.Open(t, sqlite.NewApprovals(w.db), toolcall.Judge{Evaluator: w.engine, LiveDevice: everyDevice}, approval.Limits{})
	approvaltest.Start(t, w.desk)
}

// policySet is the set for the members that exist.
func (w *world) policySet(members []access.Member) *policy.Set {
	w.t.Helper()
	cfg := policy.Config{
		Tools: []tool.Descriptor{policytest.Read, policytest.Run}, Members: members, Workspaces: []string{"default"},
		Snapshot: policy.Snapshot{MaxCallsPerRun: 200},
	}
	if w.policies != "" {
		cfg.Sources = []policy.Source{{Name: "secret-rules.cedar", Text: w.policies}}
	}
	return must[*policy.Set](w.t)(policy.Load(cfg))
}

func (w *world) serve() {
	t := w.t
	t.Helper()
	router := must[*dispatch.Router](t)(dispatch.New(dispatch.Config{
		Tools: []dispatch.Tool{w.read, w.run}, Timeout: time.Minute,
		Snapshot: func() string { return w.engine.Current().SnapshotDigest() },
	}))
	pipeline := must[*toolcall.Pipeline](t)(toolcall.New(toolcall.Config{
		Evaluator: w.engine, Approver: w.desk, Dispatcher: router, Notary: w.notary, Ledger: sqlite.NewCalls(w.db), MaxCallsPerRun: 200, LiveDevice: everyDevice,
	}))
	runs := w.openRuns(router, pipeline)
	limiter := must[*ratelimit.Limiter](t)(ratelimit.New(w.limits))
	w.evidence = &evidence{db: w.db, notary: w.notary}
	logger := slog.New(slog.NewTextHandler(w.log, nil))
	stopping, stop := context.WithCancel(context.Background())
	w.stopping = stop
	w.server = must[*rpc.Server](t)(rpc.New(stopping, rpc.Config{
		Auth: w.identity, Limiter: limiter, Audit: w.audit, Engine: w.engine, Pipeline: pipeline, Router: router, Desk: w.desk, Runs: runs,
		Journal: w.journal, Evidence: w.evidence, Policies: policiesFake{}, Members: membersFake{w}, Gateway: w.gateway, Workspaces: w.workspaces, Log: logger,
	}))
	w.identity.OnRevoke(func(d identity.Device) { w.server.Revoked(d.ID) })
	w.listen()
}

// openRuns drives runs until the test ends.
func (w *world) openRuns(router *dispatch.Router, pipeline *toolcall.Pipeline) *run.Manager {
	w.t.Helper()
	runs := must[*run.Manager](w.t)(run.New(run.Config{
		Calls: pipeline, Models: map[string]model.Provider{"fake": w.model}, DefaultModel: "fake",
		Catalog: func(access.Caller) []tool.Descriptor { return router.Descriptors() },
		Store:   sqlite.NewRuns(w.db), Approvals: w.desk,
		Limits: run.Limits{
			Budget:             run.Budget{Calls: 200, Tokens: 1_000_000, WallClock: time.Hour},
			ActivePerPrincipal: 100, ParallelCalls: 4,
		},
	}))
	ctx, stop := context.WithCancel(context.Background())
	w.stopRuns = stop
	ended := make(chan error, 1)
	go func() { ended <- runs.Run(ctx, 0) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	return runs
}

// listen serves on TLS. The handshake lets every certificate of the gateway's
// own root in, so that what the API itself refuses can be seen.
func (w *world) listen() {
	w.t.Helper()
	server := httptest.NewUnstartedServer(w.server)
	server.TLS = must[*tls.Config](w.t)(w.authority.ServerTLS(ca.Loopback(), func([]*x509.Certificate) error { return nil }))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	w.t.Cleanup(func() {
		w.stopping()
		server.CloseClientConnections()
		server.Close()
	})
	// By address: "localhost" may lead to somebody who has the port on ::1.
	w.url = "https://" + server.Listener.Addr().String()
}

// client is somebody with a device.
type client struct {
	w      *world
	device string
	http   *http.Client
}

// admit adds a member and returns its client.
func (w *world) admit(p, owner access.Principal, roles ...access.Role) *client {
	w.t.Helper()
	key, csr := request(w.t)
	a, err := w.identity.AddMember(w.t.Context(), identity.Daemon(), p.Name, p.Kind, roles, owner, csr)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.connect(a.Device.ID, certificate(a.Certificate.Chain, key))
}

func request(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func certificate(chain []*x509.Certificate, key *ecdsa.PrivateKey) *tls.Certificate {
	c := &tls.Certificate{PrivateKey: key}
	for _, link := range chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	return c
}

// connect returns a client that shows a certificate, or none.
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

// call makes a call and collects what the stream brings.
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

// protocols are how clients may speak to the one handler.
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
			if info.GetReason() != string(want) || info.GetDomain() != rpc.ErrorDomain || info.GetMetadata()["remedy"] == "" {
				t.Errorf("%s: %v with %v, want %s", what, e, info, want)
			}
			return info
		}
	}
	t.Errorf("%s: %v (%s) carries no ErrorInfo, want %s", what, e, e.Code(), want)
	return nil
}

// probe is a tool that does what a test says.
type probe struct {
	descriptor tool.Descriptor

	mu  sync.Mutex
	ran int
	do  func(context.Context, tool.Call) tool.Report
}

func (p *probe) Descriptor() tool.Descriptor { return p.descriptor }

func (p *probe) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	return tool.Plan{
		Subject: p.descriptor.Name + ":x",
		Facts:   tool.Facts{Workspace: "default", SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: "Do it."},
	}, nil
}

func (p *probe) Prepare(ctx context.Context, proposal tool.Proposal) (tool.Prepared, error) {
	plan, err := p.Plan(ctx, proposal)
	return tool.Prepared{Plan: plan, Run: p.Run}, err
}

func (p *probe) Run(ctx context.Context, c tool.Call) tool.Report {
	p.mu.Lock()
	p.ran++
	do := p.do
	p.mu.Unlock()
	if do != nil {
		return do(ctx, c)
	}
	return succeeded(`{"ok":true}`)
}

func (p *probe) runs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ran
}

func succeeded(result string) tool.Report {
	return tool.Report{
		Outcome: tool.Succeeded, Result: json.RawMessage(result), Executor: tool.ExecutorInfo{Name: tool.Builtin, Tier: "builtin"},
		Enforcement: tool.Enforcement{Level: "none"}, StartedAt: time.Now(), FinishedAt: time.Now(),
	}
}

// logBuffer is what the API logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func generous() map[ratelimit.Class]ratelimit.Limits {
	limits := map[ratelimit.Class]ratelimit.Limits{}
	for _, class := range []ratelimit.Class{rpc.LimitRead, rpc.LimitMutate, rpc.LimitDecide, rpc.LimitToolCall} {
		l := ratelimit.Limit{PerSecond: 1000, Burst: 1000}
		limits[class] = ratelimit.Limits{Each: l, Global: l}
	}
	return limits
}

// everyDevice is live.
func everyDevice(string) bool { return true }
