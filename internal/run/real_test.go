package run_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/approval/approvaltest"
	"palyra/internal/attest"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/model"
	"palyra/internal/policy/policytest"
	"palyra/internal/reason"
	"palyra/internal/run"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

// echo is a tool of the real pipeline that returns its input.
type echo struct{ descriptor tool.Descriptor }

func (e echo) Descriptor() tool.Descriptor { return e.descriptor }

func (e echo) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	return tool.Plan{
		Subject: e.descriptor.Name + ":x", Binding: tool.Binding{Cwd: "default:."},
		Facts:   tool.Facts{Workspace: "default", SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: "Say it again."},
	}, nil
}

func (e echo) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := e.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: e.run}, err
}

func (e echo) run(ctx context.Context, c tool.Call) tool.Report {
	if strings.Contains(string(c.Proposal.Input), "hook") {
		_, _ = c.Commit(ctx, tool.CommitRequest{Facts: tool.CommitFacts{
			Workspace: "default", Root: "sha256:1", Protected: []string{".git/hooks/x"}, Classes: []string{"git"},
		}})
	}
	return tool.Report{
		Outcome: tool.Succeeded, Result: c.Proposal.Input,
		Executor:    tool.ExecutorInfo{Name: tool.Builtin, Tier: "builtin", Version: "test"},
		Enforcement: tool.Enforcement{Level: "none"}, StartedAt: time.Now().UTC(), FinishedAt: time.Now().UTC(),
	}
}

// real is a manager over the real pipeline, desk, policy and store.
type real struct {
	*run.Manager
	db    *sqlite.DB
	desk  *approval.Desk
	model *scripted
}

func newReal(t testing.TB, steps ...step) *real {
	t.Helper()
	w := &real{db: sqlitetest.Open(t), model: &scripted{steps: steps}}
	engine := policytest.Engine(t, policytest.Options{})
	live := func(string) bool { return true }
	w.desk = approvaltest.Open(t, sqlite.NewApprovals(w.db), toolcall.Judge{Evaluator: engine, LiveDevice: live}, approval.Limits{})
	approvaltest.Start(t, w.desk)
	router, err := dispatch.New(dispatch.Config{
		Tools:    []dispatch.Tool{echo{policytest.Read}, echo{policytest.Run}},
		Snapshot: func() string { return engine.Current().SnapshotDigest() }, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := toolcall.New(toolcall.Config{
		Evaluator: engine, Approver: w.desk, Dispatcher: router, Notary: newNotary(t), Ledger: sqlite.NewCalls(w.db),
		MaxCallsPerRun: 1 << 30, LiveDevice: live,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Manager, err = run.New(run.Config{
		Calls: pipeline, Models: map[string]model.Provider{"fake": w.model}, DefaultModel: "fake",
		Catalog:    func(access.Caller) []tool.Descriptor { return router.Descriptors() },
		Workspaces: []run.Workspace{{Name: "default"}}, Store: sqlite.NewRuns(w.db), Approvals: w.desk,
		Limits: run.Limits{
			Budget: run.Budget{Calls: 1 << 30, Tokens: 1 << 40, WallClock: time.Hour}, ActivePerPrincipal: 10, ParallelCalls: 4,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	return w
}

// newNotary signs under a CA of its own.
func newNotary(t testing.TB) *attest.Notary {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certify := func(c, parent *x509.Certificate, key any) *x509.Certificate {
		c.NotBefore, c.NotAfter, c.BasicConstraintsValid = time.Now().Add(-time.Hour), time.Now().Add(time.Hour), true
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key, caKey)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	root = certify(root, root, caKey.Public())
	leaf := certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "palyra.local", Path: "/notary/1"}},
	}, root, public)
	n, err := attest.NewNotary(attest.NotaryConfig{Signer: private, Chain: []*x509.Certificate{leaf, root}, Gateway: "palyra.local"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A run through the real stages: one call that needs nobody, two side by side
// of which one asks, and one whose input is refused; the tape is the same
// while it runs and when it is read from the journal alone.
func TestRunThroughTheRealPipeline(t *testing.T) {
	w := newReal(t,
		calls(call("c1", "fs.read", `{"path":"a"}`)),
		calls(call("c2", "fs.read", `{"path":"b"}`), call("c3", "process.run", `{"argv":["make"]}`)),
		calls(call("c4", "fs.read", `{"pth":"a"}`)),
		says("done"))
	r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
	if err != nil {
		t.Fatal(err)
	}
	voter := alice
	voter.Roles, voter.Surface, voter.Paired = []access.Role{access.RoleOwner}, access.SurfaceCLI, true
	var seen []run.Event
	err = w.Watch(t.Context(), r.ID, 0, func(e run.Event) error {
		seen = append(seen, e)
		if e.Asked == nil {
			return nil
		}
		_, err := w.desk.Decide(t.Context(), voter, e.Asked.ID, approval.Ballot{Allow: true, ShownDigest: e.Asked.CallDigest})
		return err
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	wantOrder(t, seen)
	if end := seen[len(seen)-1].Finished; end.State != run.Completed || end.Usage.Calls != 4 {
		t.Errorf("the end is %+v", end)
	}
	for id, want := range map[string][]string{
		"c1": {"proposed", "decision", "result", "attestation"},
		"c3": {"proposed", "asked", "resolved", "decision", "result", "attestation"},
		"c4": {"proposed", "decision"},
	} {
		if got := kinds(slices.DeleteFunc(slices.Clone(seen), func(e run.Event) bool { return e.CallID != id })); !slices.Equal(got, want) {
			t.Errorf("call %s: %v, want %v", id, got, want)
		}
	}
	w.DropTape(r.ID)
	var again []run.Event
	if err := w.Watch(t.Context(), r.ID, 0, func(e run.Event) error { again = append(again, e); return nil }, func() {}); err != nil {
		t.Fatal(err)
	}
	// An approval is read as it is by now.
	for _, list := range [][]run.Event{seen, again} {
		for i := range list {
			if list[i].Asked != nil {
				list[i].Asked = &approval.Record{ID: list[i].Asked.ID}
			}
		}
	}
	wantSame(t, "from the journal", again, durable(seen))
	if got := result(w.model.asked(2), 0).Text; got != `{"path":"a"}` {
		t.Errorf("the model was given %s", got)
	}
	var refused struct{ Reason reason.Code }
	if err := json.Unmarshal([]byte(result(w.model.asked(4), 0).Text), &refused); err != nil || refused.Reason != reason.InvalidInput {
		t.Errorf("the model was given %+v, %v", result(w.model.asked(4), 0), err)
	}
}

// A call that asks twice: for itself, and for what it changed. The tape tells
// of both, live and from the journal.
func TestRunWhoseCallAsksForItsChanges(t *testing.T) {
	for _, test := range []struct {
		allow bool
		want  approval.State
	}{{true, approval.Allowed}, {false, approval.Denied}} {
		w := newReal(t, calls(call("c1", "process.run", `{"argv":["hook"]}`)), says("done"))
		r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
		if err != nil {
			t.Fatal(err)
		}
		voter := alice
		voter.Roles, voter.Surface, voter.Paired = []access.Role{access.RoleOwner}, access.SurfaceCLI, true
		var seen []run.Event
		err = w.Watch(t.Context(), r.ID, 0, func(e run.Event) error {
			seen = append(seen, e)
			if e.Asked == nil {
				return nil
			}
			yes := test.allow || !e.Asked.AboutCommit()
			_, err := w.desk.Decide(t.Context(), voter, e.Asked.ID, approval.Ballot{Allow: yes, Reason: "so", ShownDigest: e.Asked.CallDigest})
			return err
		}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		seen = durable(seen)
		want := []string{"started", "turn", "proposed", "asked", "resolved", "decision", "asked", "resolved", "result", "attestation", "turn", "finished"}
		if got := kinds(seen); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if first, second := seen[4].Resolved, seen[7].Resolved; first.ApprovalID != seen[3].Asked.ID || second.ApprovalID != seen[6].Asked.ID || second.State != test.want {
			t.Errorf("resolved %+v, then %+v", first, second)
		}
		w.DropTape(r.ID)
		var again []run.Event
		if err := w.Watch(t.Context(), r.ID, 0, func(e run.Event) error { again = append(again, e); return nil }, func() {}); err != nil {
			t.Fatal(err)
		}
		if got := kinds(again); !slices.Equal(got, want) {
			t.Errorf("from the journal %v, want %v", got, want)
		}
	}
}

// Two runs of one session that ask for the same are one question; the tape of
// each tells of it, of how it was answered, and of nothing of the other.
func TestRunsThatAskTogether(t *testing.T) {
	ask := calls(call("c1", "process.run", `{"argv":["make"]}`))
	w := newReal(t, ask, ask, says("done"), says("done"))
	voter := alice
	voter.Roles, voter.Surface, voter.Paired = []access.Role{access.RoleOwner}, access.SurfaceCLI, true
	asks := make(chan approval.Record, 2)
	tapes := make(chan []run.Event, 2)
	for range 2 {
		r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			var list []run.Event
			err := w.Watch(context.Background(), r.ID, 0, func(e run.Event) error {
				list = append(list, e)
				if e.Asked != nil {
					asks <- *e.Asked
				}
				return nil
			}, func() {})
			if err != nil {
				t.Error(err)
			}
			tapes <- list
		}()
	}
	first, second := <-asks, <-asks
	if first.ID != second.ID {
		t.Fatalf("approvals %s and %s, want one", first.ID, second.ID)
	}
	if _, err := w.desk.Decide(t.Context(), voter, first.ID, approval.Ballot{Reason: "no", ShownDigest: first.CallDigest}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		list := <-tapes
		wantOrder(t, list)
		want := []string{"started", "turn", "proposed", "asked", "resolved", "decision"}
		if got := kinds(list); !slices.Equal(got[:6], want) {
			t.Errorf("tape %v, want %v", got, want)
		}
		if r := list[4].Resolved; r == nil || r.State != approval.Denied {
			t.Errorf("resolved %+v", r)
		}
	}
}

// The answer with one call costs no write of its own: it is durable before the
// first event of the call, in the same transaction.
func TestTurnLeadsItsOnlyCall(t *testing.T) {
	w := newReal(t, calls(call("c1", "fs.read", `{"path":"a"}`)), says("done"))
	r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Watch(t.Context(), r.ID, 0, func(run.Event) error { return nil }, func() {}); err != nil {
		t.Fatal(err)
	}
	events, err := w.db.Events(t.Context(), journal.Filter{Run: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	var codes []event.Code
	for _, e := range events {
		codes = append(codes, e.Code)
	}
	want := []event.Code{
		event.RunStarted, event.ModelTurn, event.Proposed, event.Evaluated, event.Decided, event.Attested, event.ModelTurn, event.RunFinished,
	}
	if !slices.Equal(codes, want) {
		t.Fatalf("journal %v, want %v", codes, want)
	}
	// Events of one transaction have one time.
	if !events[1].At.Equal(events[2].At) || !events[1].At.Equal(events[4].At) {
		t.Errorf("the turn was written at %s, the call at %s", events[1].At, events[2].At)
	}
}

// stepper is a model that plays what it is sent.
type stepper chan step

func (s stepper) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	return (<-s)(ctx, r, observe)
}

// BenchmarkTurn is one answer of a model with one call, through all stages and
// the real journal, until a client that watches has the result.
func BenchmarkTurn(b *testing.B) {
	next := make(chan step)
	w := newReal(b)
	w.Models["fake"] = stepper(next)
	r, _, err := w.Start(b.Context(), agent, run.Start{Message: "go"})
	if err != nil {
		b.Fatal(err)
	}
	results := make(chan struct{})
	watched := make(chan error, 1)
	go func() {
		watched <- w.Watch(context.Background(), r.ID, 0, func(e run.Event) error {
			if e.Attestation != nil {
				results <- struct{}{}
			}
			return nil
		}, func() {})
	}()
	b.ResetTimer()
	for range b.N {
		next <- calls(call("c", "fs.read", `{"path":"a"}`))
		<-results
	}
	b.StopTimer()
	next <- says("done")
	if err := <-watched; err != nil {
		b.Fatal(err)
	}
}
