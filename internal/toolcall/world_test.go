package toolcall_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/approval/approvaltest"
	"palyra/internal/attest"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

var errDisk = errors.New("the disk is full")

// probe is a tool whose plan and work a test can change, and that counts its
// runs.
type probe struct {
	descriptor tool.Descriptor
	runs       atomic.Int32

	mu      sync.Mutex
	binding tool.Binding
	subject string
	// onPlan is called before each plan, without the lock.
	onPlan func(n int)
	plans  int
	run    func(context.Context, tool.Call) tool.Report
	// secrets are those that its calls may use, maySend the bytes.
	secrets []string
	// path, method and files are what planning finds of a file; no policy by
	// default reads method.
	path, method string
	files        []tool.FileIdentity
	// rung is that of the sandbox.
	rung    string
	maySend int64
}

func newProbe(d tool.Descriptor) *probe {
	return &probe{descriptor: d, subject: d.Name + ":subject", binding: tool.Binding{
		Cwd: "default:.", Argv: []string{"make"}, Environment: []string{"LANG=C"},
		Executable:     tool.Executable{Path: "/usr/bin/make", SHA256: digest("1")},
		Operands:       []tool.Operand{{Path: "Makefile", SHA256: digest("2")}},
		SandboxProfile: "c/rw/default", Egress: []string{"strict"},
	}}
}

func digest(c string) string {
	out := "sha256:"
	for range 64 {
		out += c
	}
	return out
}

func (p *probe) Descriptor() tool.Descriptor { return p.descriptor }

func (p *probe) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	p.mu.Lock()
	p.plans++
	n, hook := p.plans, p.onPlan
	p.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return tool.Plan{
		Binding: p.binding, Subject: p.subject,
		Facts:   tool.Facts{Workspace: "default", Path: p.path, Method: p.method, SandboxTier: "builtin", SandboxLevel: "none", SandboxRung: p.rung, Secrets: p.secrets},
		Files:   p.files,
		Preview: tool.Preview{Summary: "Do what the test says."}, MaySend: p.maySend,
	}, nil
}

func (p *probe) Prepare(ctx context.Context, proposal tool.Proposal) (tool.Prepared, error) {
	plan, err := p.Plan(ctx, proposal)
	return tool.Prepared{Plan: plan, Run: p.Run}, err
}

func (p *probe) Run(ctx context.Context, c tool.Call) tool.Report {
	p.runs.Add(1)
	p.mu.Lock()
	run := p.run
	p.mu.Unlock()
	if run != nil {
		return run(ctx, c)
	}
	return succeeded(`{"ok":true}`)
}

func succeeded(result string) tool.Report {
	return tool.Report{
		Outcome: tool.Succeeded, Result: json.RawMessage(result),
		Executor:    tool.ExecutorInfo{Name: tool.Builtin, Tier: "builtin", Version: "test"},
		Enforcement: tool.Enforcement{Level: "none"},
		StartedAt:   time.Now().UTC(), FinishedAt: time.Now().UTC(),
	}
}

// reports makes a tool succeed with a result.
func reports(result string) func(context.Context, tool.Call) tool.Report {
	return func(context.Context, tool.Call) tool.Report { return succeeded(result) }
}

// change changes the world that the tool finds.
func (p *probe) change(fn func(*probe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(p)
}

// secretTool takes a secret at declared places.
var secretTool = tool.Descriptor{
	Name: "vault.put", Title: "Put a secret", Executor: tool.Builtin, ReadOnly: true,
	Capabilities: []tool.Capability{tool.FilesystemRead}, SecretPaths: []string{"/value", "/nested/token"},
	InputSchema: json.RawMessage(`{"type":"object"}`),
}

// world is the pipeline with real stages on a store in a file: the policy
// engine, the desk, the router and a notary under a test CA. Wrappers between
// them fail or record what the test wants.
type world struct {
	t      *testing.T
	db     *sqlite.DB
	path   string
	engine *policy.Engine
	desk   *approval.Desk
	router *dispatch.Router
	stop   func()

	read, run, fetch, secret *probe
	// more are tools beside those.
	more []dispatch.Tool

	trace   trace
	ledger  *ledger
	store   *store
	notary  *notary
	options policytest.Options
	limits  approval.Limits
	// budget is that of a run, perSession that of other calls.
	budget, perSession int
	idle               time.Duration
	// onCurrent is the evaluator's.
	onCurrent func()
	// revoked are devices that may no longer act.
	revoked sync.Map
	// log is what the pipeline logged.
	log logged

	*toolcall.Pipeline
}

func (w *world) live(device string) bool {
	_, revoked := w.revoked.Load(device)
	return !revoked
}

// logged is a log that many write to.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newWorld starts a gateway; setup may change it before.
func newWorld(t *testing.T, setup ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "palyra.db"), budget: 200, perSession: 1 << 30, idle: 30 * time.Minute,
		read: newProbe(policytest.Read), run: newProbe(policytest.Run), fetch: newProbe(policytest.Fetch), secret: newProbe(secretTool),
	}
	for _, fn := range setup {
		fn(w)
	}
	w.options.Tools = append(w.options.Tools, secretTool)
	w.notary = &notary{Notary: testNotary(t), trace: &w.trace}
	if err := os.WriteFile(w.path, emptyStore, 0o600); err != nil {
		t.Fatal(err)
	}
	w.db = sqlitetest.OpenAt(t, w.path, sqlite.Options{})
	w.engine = policy.NewEngine(loaded(t, w.options))
	w.start()
	return w
}

// emptyStore is a migrated store: with the race detector, migrating takes
// longer than most tests.
var emptyStore []byte

// sets are the policy sets that were loaded, by their options, for the same
// reason. Sets never change.
var sets sync.Map

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "toolcall")
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

func loaded(t *testing.T, o policytest.Options) *policy.Set {
	t.Helper()
	key := fmt.Sprintf("%+v", o)
	if known, ok := sets.Load(key); ok {
		return known.(*policy.Set)
	}
	set := policytest.Set(t, o)
	sets.Store(key, set)
	return set
}

// start builds the stages over the store, as a start of the daemon does.
func (w *world) start() {
	w.t.Helper()
	w.ledger = &ledger{Ledger: sqlite.NewCalls(w.db), trace: &w.trace}
	w.store = &store{Store: sqlite.NewApprovals(w.db)}
	w.desk = approvaltest.Open(w.t, w.store, toolcall.Judge{Evaluator: w.engine, LiveDevice: w.live}, w.limits)
	w.stop = approvaltest.Start(w.t, w.desk)
	w.buildRouter()
	if err := w.desk.MarkRunsGone(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.buildPipeline()
}

func (w *world) buildRouter() {
	w.t.Helper()
	var err error
	w.router, err = dispatch.New(dispatch.Config{
		Tools:    append([]dispatch.Tool{w.read, w.run, w.fetch, w.secret}, w.more...),
		Snapshot: func() string { return w.engine.Current().SnapshotDigest() }, Timeout: time.Minute,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) buildPipeline() {
	w.t.Helper()
	var err error
	w.Pipeline, err = toolcall.New(toolcall.Config{
		Evaluator: &evaluator{w.engine, &w.trace, w.onCurrent}, Approver: &approver{w.desk, &w.trace},
		Dispatcher: &dispatcher{w.router, &w.trace}, Notary: w.notary, Ledger: w.ledger, MaxCallsPerRun: w.budget, MaxCallsPerSession: w.perSession,
		SessionIdle: w.idle, LiveDevice: w.live,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart ends the desk and starts all stages anew on the same store, as a
// daemon that was killed and started again; what was open is closed.
func (w *world) restart() (ambiguous int) {
	w.t.Helper()
	w.stop()
	w.start()
	n, err := toolcall.CloseAmbiguous(w.t.Context(), w.ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// reload puts a policy set with this text in force.
func (w *world) reload(policies string) {
	w.t.Helper()
	o := w.options
	o.Policies = policies
	w.engine.Swap(loaded(w.t, o))
}

// The callers.
var (
	agent = access.Caller{
		Principal: policytest.Agent, OnBehalfOf: policytest.Alice, Roles: []access.Role{access.RoleAgent},
		DeviceID: "01JNA3Q0G0DEV1CE0000000001", Surface: access.SurfaceGRPC, Paired: true,
	}
	alice = person(policytest.Alice, access.RoleOwner)
	bob   = person(policytest.Bob, access.RoleOperator)
)

func person(p access.Principal, roles ...access.Role) access.Caller {
	return access.Caller{
		Principal: p, OnBehalfOf: p, Roles: roles, DeviceID: "01JNA3Q0G0DEV1CE00000000" + p.Name[:2],
		Surface: access.SurfaceCLI, Paired: true,
	}
}

// member is one more operator.
func member(name string) access.Member {
	return access.Member{Principal: access.User(name), Roles: []access.Role{access.RoleOperator}, CreatedAt: policytest.Now}
}

func readCall() toolcall.Submission {
	return toolcall.Submission{Caller: agent, Tool: "fs.read", Input: []byte(`{"path":"a"}`), Run: "run-1"}
}

func runCall() toolcall.Submission {
	return toolcall.Submission{Caller: agent, Tool: "process.run", Input: []byte(`{"argv":["make"]}`), Run: "run-1"}
}

// running is a call under way.
type running struct {
	t      *testing.T
	hook   func(toolcall.Event)
	asks   chan approval.Record
	output chan string
	done   chan struct{}
	leave  context.CancelFunc

	mu      sync.Mutex
	events  []toolcall.Event
	outcome toolcall.Outcome
	err     error
}

// begin submits a call on a goroutine of its own.
func (w *world) begin(s toolcall.Submission) *running { return w.beginWith(s, nil) }

// beginWith is begin with a hook that stands in the call's way: it is called
// with every event before the call goes on.
func (w *world) beginWith(s toolcall.Submission, hook func(toolcall.Event)) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: w.t, hook: hook, asks: make(chan approval.Record, 8), output: make(chan string, 64), done: make(chan struct{}), leave: cancel}
	go func() {
		defer cancel()
		defer close(r.done)
		r.outcome, r.err = w.Call(ctx, s, r.observe)
	}()
	return r
}

func (r *running) observe(e toolcall.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	if r.hook != nil {
		r.hook(e)
	}
	switch {
	case e.Asked != nil:
		r.asks <- *e.Asked
	case e.Output != nil:
		r.output <- string(e.Output.Data)
	}
}

// asked returns the record that the call asks with.
func (r *running) asked() approval.Record {
	r.t.Helper()
	select {
	case rec := <-r.asks:
		return rec
	case <-r.done:
		r.t.Fatalf("the call ended without asking: %+v, %v", r.outcome.Decision, r.err)
	case <-time.After(time.Minute):
		r.t.Fatal("nobody was asked")
	}
	return approval.Record{}
}

func (r *running) wait() (toolcall.Outcome, error) {
	r.t.Helper()
	<-r.done
	return r.outcome, r.err
}

// kinds names the events that the client saw.
func (r *running) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, e := range r.events {
		names = append(names, kind(e))
	}
	return names
}

func kind(e toolcall.Event) string {
	switch {
	case e.Proposed != nil:
		return "proposed"
	case e.Asked != nil:
		return "asked"
	case e.Resolved != nil:
		return "resolved"
	case e.Decision != nil:
		return "decision"
	case e.Output != nil:
		return "output"
	case e.Ruling != nil:
		return "ruling"
	case e.Result != nil:
		return "result"
	case e.Attestation != nil:
		return "attestation"
	}
	return "nothing"
}

// call submits a call and waits for its end.
func (w *world) call(s toolcall.Submission) (*running, toolcall.Outcome, error) {
	r := w.begin(s)
	o, err := r.wait()
	return r, o, err
}

// vote casts a vote with what the approver was shown.
func (w *world) vote(c access.Caller, rec approval.Record, b approval.Ballot) approval.Record {
	w.t.Helper()
	b.ShownDigest = rec.CallDigest
	after, err := w.desk.Decide(w.t.Context(), c, rec.ID, b)
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

var (
	yes = approval.Ballot{Allow: true}
	no  = approval.Ballot{Reason: "not today"}
)

// journaled is one event as it is stored.
type journaled struct {
	Seq                          int64
	Code                         event.Code
	Session, Run, Actor, Subject string
	Payload                      json.RawMessage
}

// journal returns all events after a sequence number.
func (w *world) journal(after int64) []journaled {
	w.t.Helper()
	var list []journaled
	err := w.db.Read(w.t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT seq, code, session, run, actor, subject, payload FROM events WHERE seq > ?1 ORDER BY seq", func(r *sqlite.Row) error {
			list = append(list, journaled{
				Seq: r.Int64(0), Code: event.Code(r.Text(1)), Session: r.Text(2), Run: r.Text(3), Actor: r.Text(4), Subject: r.Text(5),
				Payload: json.RawMessage(r.Text(6)),
			})
			return nil
		}, after)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) codes(after int64) []event.Code {
	w.t.Helper()
	var list []event.Code
	for _, e := range w.journal(after) {
		list = append(list, e.Code)
	}
	return list
}

func (w *world) wantJournal(after int64, want ...event.Code) {
	w.t.Helper()
	if got := w.codes(after); !slices.Equal(got, want) {
		w.t.Errorf("journal %v, want %v", got, want)
	}
}

// blob returns stored content by its digest, nil when there is none.
func (w *world) blob(digest string) (content []byte) {
	w.t.Helper()
	err := w.db.Read(w.t.Context(), func(c *sqlite.Conn) (err error) {
		content, err = c.Blob(digest)
		return err
	})
	if err != nil {
		w.t.Errorf("reading blob %s: %v", digest, err)
	}
	return content
}

func (w *world) head() int64 { return w.db.Head().Seq }

// last returns the payload of the last event with a code.
func last[T any](w *world, code event.Code) T {
	w.t.Helper()
	var payload T
	list := w.journal(0)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Code == code {
			if err := json.Unmarshal(list[i].Payload, &payload); err != nil {
				w.t.Fatal(err)
			}
			return payload
		}
	}
	w.t.Fatalf("the journal has no %s", code)
	return payload
}

func (w *world) ran(p *probe, want int32) {
	w.t.Helper()
	if got := p.runs.Load(); got != want {
		w.t.Errorf("%s ran %d times, want %d", p.descriptor.Name, got, want)
	}
}

func (w *world) open(want int) {
	w.t.Helper()
	open, err := w.ledger.OpenCalls(w.t.Context())
	if err != nil || len(open) != want {
		w.t.Errorf("%d open calls, %v, want %d", len(open), err, want)
	}
}

// testNotary signs under a CA of its own that is valid at any time.
func testNotary(t *testing.T) *attest.Notary {
	t.Helper()
	from, to := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootCert := sign(t, root, root, caKey.Public(), caKey)
	leaf := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "palyra.local", Path: "/notary/1"}},
	}, rootCert, public, caKey)
	n, err := attest.NewNotary(attest.NotaryConfig{
		Signer: private, Chain: []*x509.Certificate{leaf, rootCert}, Gateway: "palyra.local",
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sign(t *testing.T, tmpl, parent *x509.Certificate, pub, key any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
