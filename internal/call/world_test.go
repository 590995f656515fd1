package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault/atrest/atresttest"
)

var errDisk = errors.New("the disk is full")

// secretTool is a tool with secrets at declared paths of its input.
var secretTool = tool.Descriptor{
	Name: "vault.put", Title: "Put a secret", Executor: tool.Builtin, ReadOnly: true,
	Capabilities: []tool.Capability{tool.FilesystemRead}, SecretPaths: []string{"/value", "/nested/token"},
	InputSchema: json.RawMessage(`{"type":"object"}`),
}

// world is the pipeline with real stages on a store in a file: the policy engine, the desk, the
// router and a notary under a test CA. Wrappers between them fail or record as the test requires.
type world struct {
	t      *testing.T
	db     *sqlite.DB
	path   string
	engine *policy.Engine
	// ring is the vault that provides the store's keys.
	ring atresttest.Ring

	read, run, fetch, secret *gatewaytest.Probe
	// more are additional tools.
	more []tool.Runnable

	trace   trace
	ledger  *ledger
	store   *store
	notary  *notary
	options policytest.Options
	limits  approval.Limits
	// budget limits the calls of a run, perSession the other calls of a session.
	budget, perSession int
	idle               time.Duration
	// onCurrent is called by the evaluator.
	onCurrent func()
	// revoked are the devices that may no longer act.
	revoked sync.Map
	// log contains the log entries of the pipeline.
	log gatewaytest.Log

	*gatewaytest.Gateway
}

func (w *world) live(device string) bool {
	_, revoked := w.revoked.Load(device)
	return !revoked
}

func (w *world) standing(c access.Caller) error {
	if !w.live(c.DeviceID) {
		return reason.Errorf(reason.Unauthenticated, "device %s was revoked", c.DeviceID)
	}
	return nil
}

// newWorld starts a gateway. The setup functions can change the world first.
func newWorld(t *testing.T, setup ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, path: filepath.Join(sqlitetest.Dir(t), "palyra.db"), budget: 200, perSession: 1 << 30, idle: 30 * time.Minute,
		read: gatewaytest.NewProbe(policytest.Read), run: gatewaytest.NewProbe(policytest.Run), fetch: gatewaytest.NewProbe(policytest.Fetch), secret: gatewaytest.NewProbe(secretTool),
	}
	w.read.PathOfInput = true
	for _, fn := range setup {
		fn(w)
	}
	w.options.Tools = append(w.options.Tools, secretTool)
	w.notary = &notary{Notary: gatewaytest.Notary(t), trace: &w.trace}
	w.db = sqlitetest.OpenMigrated(t, w.path, sqlite.Options{Results: &w.ring})
	w.engine = policy.NewEngine(loaded(t, w.options))
	w.start()
	return w
}

// sets caches the loaded policy sets by their options, because loading under the race detector
// takes longer than most tests. Sets never change.
var sets sync.Map

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

// start builds the stages over the store, like a start of the daemon.
func (w *world) start() {
	w.t.Helper()
	w.ledger = &ledger{Ledger: sqlite.NewCalls(w.db), trace: &w.trace}
	w.store = &store{Store: sqlite.NewApprovals(w.db)}
	w.Gateway = gatewaytest.New(w.t, gatewaytest.Config{
		DB: w.db, Engine: w.engine, Notary: w.notary, Tools: append([]tool.Runnable{w.read, w.run, w.fetch, w.secret}, w.more...),
		Approvals: w.store, Limits: w.limits, LiveDevice: w.live, Standing: w.standing,
		MaxCallsPerRun: w.budget, MaxCallsPerSession: w.perSession, SessionIdle: w.idle, Log: w.log.Logger(), Between: w.between,
	})
}

// between wraps the stages.
func (w *world) between(g *gatewaytest.Gateway, c *call.Config) {
	c.Evaluator, c.Approver = &evaluator{w.engine, &w.trace, w.onCurrent}, &approver{g.Desk.Requests, &w.trace}
	c.Dispatcher, c.Ledger = &dispatcher{g.Router, &w.trace}, w.ledger
}

// restart stops the desk and starts all stages on the same store, like a daemon that was killed
// and started again. Open calls are closed.
func (w *world) restart() (ambiguous int) {
	w.t.Helper()
	w.StopDesk()
	w.start()
	return must.Get(call.CloseAmbiguous(w.t.Context(), w.ledger))(w.t)
}

// reload puts a policy set with this text in force.
func (w *world) reload(policies string) {
	w.t.Helper()
	o := w.options
	o.Policies = policies
	w.engine.Swap(loaded(w.t, o))
}

var (
	agent = gatewaytest.Agent
	alice = gatewaytest.Person(policytest.Alice, access.RoleOwner)
	bob   = gatewaytest.Person(policytest.Bob, access.RoleOperator)
)

// member returns an additional operator.
func member(name string) access.Member {
	return access.Member{Principal: access.User(name), Roles: []access.Role{access.RoleOperator}, CreatedAt: policytest.Now}
}

func readCall() call.Submission {
	return call.Submission{Caller: agent, Tool: "fs.read", Input: []byte(`{"path":"a"}`), Run: "run-1"}
}

func runCall() call.Submission {
	return call.Submission{Caller: agent, Tool: "process.run", Input: []byte(`{"argv":["make"]}`), Run: "run-1"}
}

// running is a call in progress.
type running struct {
	t      *testing.T
	hook   func(call.Event)
	asks   chan approval.Record
	output chan string
	done   chan struct{}
	leave  context.CancelFunc

	mu      sync.Mutex
	events  []call.Event
	outcome call.Outcome
	err     error
}

// begin submits a call in a new goroutine.
func (w *world) begin(s call.Submission) *running { return w.beginWith(s, nil) }

// beginWith is begin with a hook that receives every event before the call continues.
func (w *world) beginWith(s call.Submission, hook func(call.Event)) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: w.t, hook: hook, asks: make(chan approval.Record, 8), output: make(chan string, 64), done: make(chan struct{}), leave: cancel}
	go func() {
		defer cancel()
		defer close(r.done)
		r.outcome, r.err = w.Call(ctx, s, r.observe)
	}()
	return r
}

func (r *running) observe(e call.Event) {
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

// asked returns the approval record that the call requests.
func (r *running) asked() approval.Record {
	r.t.Helper()
	select {
	case rec := <-r.asks:
		return rec
	case <-r.done:
		r.t.Fatalf("the call ended without asking: %+v, %v", r.outcome.Decision, r.err)
	case <-time.After(must.Patience):
		r.t.Fatal("nobody was asked")
	}
	return approval.Record{}
}

func (r *running) wait() (call.Outcome, error) {
	r.t.Helper()
	<-r.done
	return r.outcome, r.err
}

// kinds lists the kinds of the events that the client received.
func (r *running) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, e := range r.events {
		names = append(names, kind(e))
	}
	return names
}

func kind(e call.Event) string {
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
func (w *world) call(s call.Submission) (*running, call.Outcome, error) {
	r := w.begin(s)
	o, err := r.wait()
	return r, o, err
}

// vote casts a vote on the displayed approval.
func (w *world) vote(c access.Caller, rec approval.Record, b approval.Ballot) approval.Record {
	w.t.Helper()
	b.ShownDigest = rec.CallDigest
	return must.Get(w.Desk.Votes.Decide(w.t.Context(), c, rec.ID, b))(w.t)
}

var (
	yes = approval.Ballot{Allow: true}
	no  = approval.Ballot{Reason: "not today"}
)

// journaled is one stored event.
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
	must.Do(w.t, w.db.Read(w.t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT seq, code, session, run, actor, subject, payload FROM events WHERE seq > ?1 ORDER BY seq", func(r *sqlite.Row) error {
			list = append(list, journaled{
				Seq: r.Int64(0), Code: event.Code(r.Text(1)), Session: r.Text(2), Run: r.Text(3), Actor: r.Text(4), Subject: r.Text(5),
				Payload: json.RawMessage(r.Text(6)),
			})
			return nil
		}, after)
	}))
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

// blob returns stored content by its digest, or nil if there is none.
func (w *world) blob(digest string) []byte {
	w.t.Helper()
	content, err := w.db.Blob(w.t.Context(), digest)
	if err != nil {
		w.t.Errorf("blob %s: %v", digest, err)
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
			must.Do(w.t, json.Unmarshal(list[i].Payload, &payload))
			return payload
		}
	}
	w.t.Fatalf("the journal has no %s", code)
	return payload
}

func (w *world) open(want int) {
	w.t.Helper()
	open, err := w.ledger.OpenCalls(w.t.Context())
	if err != nil || len(open) != want {
		w.t.Errorf("%d open calls, %v, want %d", len(open), err, want)
	}
}
