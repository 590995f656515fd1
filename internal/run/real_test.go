package run_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/run"
	"palyra/internal/run/model"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// echo is a tool of the real pipeline that returns its input.
func echo(d tool.Descriptor) *gatewaytest.Probe {
	p := gatewaytest.NewProbe(d)
	p.Work = func(ctx context.Context, c tool.Call) tool.Report {
		if strings.Contains(string(c.Proposal.Input), "hook") {
			_, _ = c.Commit(ctx, tool.CommitRequest{Facts: tool.CommitFacts{
				Workspace: "default", Root: "sha256:1", Protected: []string{".git/hooks/x"}, Classes: []string{"git"},
			}})
		}
		return gatewaytest.Succeeded(string(c.Proposal.Input))
	}
	return p
}

// real is a run manager over the real pipeline, desk, policy and store.
type real struct {
	*run.Manager
	db    *sqlite.DB
	desk  *approval.Desk
	model *scripted
}

func newReal(t testing.TB, steps ...step) *real {
	t.Helper()
	w := &real{db: sqlitetest.Open(t), model: &scripted{steps: steps}}
	g := gatewaytest.New(t, gatewaytest.Config{
		DB: w.db, Engine: policytest.Engine(t, policytest.Options{}), Notary: gatewaytest.Notary(t),
		Tools: []tool.Runnable{echo(policytest.Read), echo(policytest.Run)},
	})
	w.desk = g.Desk
	w.Manager = must.Get(run.New(run.Config{
		Calls: g, Models: map[string]model.Provider{"fake": w.model}, DefaultModel: "fake",
		Catalog:    func(access.Caller) []tool.Descriptor { return g.Router.Descriptors() },
		Workspaces: []run.Workspace{{Name: "default"}}, Store: sqlite.NewRuns(w.db), Approvals: w.desk.Records,
		Limits: run.Limits{
			Budget: run.Budget{Calls: 1 << 30, Tokens: 1 << 40, WallClock: time.Hour}, ActivePerPrincipal: 10, ParallelCalls: 4, AbandonedAfter: 30 * time.Minute,
		},
	}))(t)
	must.Run(t, func(ctx context.Context) error { return w.Run(ctx, time.Second) })
	return w
}

// watch follows a run, decides its approvals with ballot, and returns its tape.
func (w *real) watch(t *testing.T, id string, ballot func(approval.Record) approval.Ballot) []run.Event {
	t.Helper()
	var seen []run.Event
	must.Do(t, w.Watch(t.Context(), id, 0, func(e run.Event) error {
		seen = append(seen, e)
		if e.Asked == nil || ballot == nil {
			return nil
		}
		b := ballot(*e.Asked)
		b.ShownDigest = e.Asked.CallDigest
		_, err := w.desk.Votes.Decide(t.Context(), alice, e.Asked.ID, b)
		return err
	}, func() {}))
	return seen
}

// A run through the real stages has one call without approval, two parallel calls of which one
// requires approval, and one with invalid input. The tape of the active run equals the tape
// that is read from the journal.
func TestRunThroughTheRealPipeline(t *testing.T) {
	t.Parallel()
	w := newReal(t,
		calls(modelCall("c1", "fs.read", `{"path":"a"}`)),
		calls(modelCall("c2", "fs.read", `{"path":"b"}`), modelCall("c3", "process.run", `{"argv":["make"]}`)),
		calls(modelCall("c4", "fs.read", `{"pth":"a"}`)),
		says("done"))
	r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
	must.Do(t, err)
	seen := w.watch(t, r.ID, func(approval.Record) approval.Ballot { return approval.Ballot{Allow: true} })
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
	again := w.watch(t, r.ID, nil)
	// Approvals are read with their current state.
	for _, list := range [][]run.Event{seen, again} {
		for i := range list {
			if list[i].Asked != nil {
				list[i].Asked = &approval.Record{ID: list[i].Asked.ID}
			}
		}
	}
	wantSame(t, "from the journal", again, durable(seen))
	if got := result(w.model.asked(2), 0).Text; got != `{"path":"a","workspace":"default"}` {
		t.Errorf("the model was given %s", got)
	}
	var refused struct{ Reason reason.Code }
	if err := json.Unmarshal([]byte(result(w.model.asked(4), 0).Text), &refused); err != nil || refused.Reason != reason.InvalidInput {
		t.Errorf("the model was given %+v, %v", result(w.model.asked(4), 0), err)
	}
}

// TestRunWithCommitApproval: a call requires two approvals, one for itself and one for its changes.
// The tape contains both, live and from the journal.
func TestRunWithCommitApproval(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		allow bool
		want  approval.State
	}{{true, approval.Allowed}, {false, approval.Denied}} {
		w := newReal(t, calls(modelCall("c1", "process.run", `{"argv":["hook"]}`)), says("done"))
		r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
		must.Do(t, err)
		seen := durable(w.watch(t, r.ID, func(asked approval.Record) approval.Ballot {
			return approval.Ballot{Allow: test.allow || !asked.AboutCommit(), Reason: "so"}
		}))
		want := []string{"started", "turn", "proposed", "asked", "resolved", "decision", "asked", "resolved", "result", "attestation", "turn", "finished"}
		if got := kinds(seen); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if first, second := seen[4].Resolved, seen[7].Resolved; first.ApprovalID != seen[3].Asked.ID || second.ApprovalID != seen[6].Asked.ID || second.State != test.want {
			t.Errorf("resolved %+v, then %+v", first, second)
		}
		w.DropTape(r.ID)
		again := w.watch(t, r.ID, nil)
		if got := kinds(again); !slices.Equal(got, want) {
			t.Errorf("from the journal %v, want %v", got, want)
		}
	}
}

// TestRunsShareAnApproval: identical requests of two runs of one session share an approval. The
// tape of each contains the approval and its answer, and nothing of the other run.
func TestRunsShareAnApproval(t *testing.T) {
	t.Parallel()
	ask := calls(modelCall("c1", "process.run", `{"argv":["make"]}`))
	w := newReal(t, ask, ask, says("done"), says("done"))
	asks := make(chan approval.Record, 2)
	tapes := make(chan []run.Event, 2)
	for range 2 {
		r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go", Session: "one"})
		must.Do(t, err)
		go func() {
			var list []run.Event
			err := w.Watch(context.Background(), r.ID, 0, func(e run.Event) error {
				list = append(list, e)
				if e.Asked != nil {
					asks <- *e.Asked
				}
				return nil
			}, func() {})
			must.Check(t, err)
			tapes <- list
		}()
	}
	first, second := <-asks, <-asks
	if first.ID != second.ID {
		t.Fatalf("approvals %s and %s, want one", first.ID, second.ID)
	}
	must.Get(w.desk.Votes.Decide(t.Context(), alice, first.ID, approval.Ballot{Reason: "no", ShownDigest: first.CallDigest}))(t)
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

// TestTurnIsStoredWithItsOnlyCall: a turn with one call is stored in the same transaction as
// the call's first events, and before them.
func TestTurnIsStoredWithItsOnlyCall(t *testing.T) {
	t.Parallel()
	w := newReal(t, calls(modelCall("c1", "fs.read", `{"path":"a"}`)), says("done"))
	r, _, err := w.Start(t.Context(), agent, run.Start{Message: "go"})
	must.Do(t, err)
	w.watch(t, r.ID, nil)
	events := must.Get(w.db.Events(t.Context(), journal.Filter{Run: r.ID}))(t)
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
	// Events of one transaction have the same time.
	if !events[1].At.Equal(events[2].At) || !events[1].At.Equal(events[4].At) {
		t.Errorf("the turn was written at %s, the call at %s", events[1].At, events[2].At)
	}
}

// stepper is a model that plays the steps that it receives.
type stepper chan step

func (s stepper) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	return (<-s)(ctx, r, observe)
}

// BenchmarkTurn measures one turn of a model with one call, through all stages and the real
// journal, until a watching client has the result.
func BenchmarkTurn(b *testing.B) {
	next := make(chan step)
	w := newReal(b)
	w.Models["fake"] = stepper(next)
	r, _, err := w.Start(b.Context(), agent, run.Start{Message: "go"})
	must.Do(b, err)
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
		next <- calls(modelCall("c", "fs.read", `{"path":"a"}`))
		<-results
	}
	b.StopTimer()
	next <- says("done")
	must.Do(b, <-watched)
}
