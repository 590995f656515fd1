package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

func TestRunFromTaskToEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "echo", `{"x":1}`)), says("done"))
		defer w.stop()
		r, _ := w.start(run.Start{Message: "the task", Session: "s", Workspace: "docs"})
		end := w.finish(r.ID)
		wantEnd(t, end, run.Completed, "")
		if want := (run.Usage{Calls: 1, Turns: 2, InputTokens: 20, OutputTokens: 10}); end.Usage != want {
			t.Errorf("usage %+v, want %+v", end.Usage, want)
		}
		want := []string{"started", "turn", "proposed", "decision", "result", "attestation", "delta", "turn", "finished"}
		list := w.events(r.ID, 0)
		if got := kinds(list); !slices.Equal(got, want) {
			t.Errorf("tape %v, want %v", got, want)
		}
		for _, e := range list[2:6] {
			if e.CallID != "c1" || e.ProposalID == "" {
				t.Errorf("%s is of call %q, proposal %q", kind(e), e.CallID, e.ProposalID)
			}
		}
		if string(list[4].Result.Result) != `{"ok":true}` {
			t.Errorf("result %s", list[4].Result.Result)
		}
		w.wantConversation()
		journaled := []event.Code{event.RunStarted, event.ModelTurn, event.Proposed, event.Evaluated, event.Decided, event.Attested, event.ModelTurn, event.RunFinished}
		if got := w.store.codes(r.ID); !slices.Equal(got, journaled) {
			t.Errorf("journal %v, want %v", got, journaled)
		}
	})
}

// wantConversation checks the requests to the model in TestRunFromTaskToEnd.
func (w *world) wantConversation() {
	w.t.Helper()
	first, second := w.model.asked(1), w.model.asked(2)
	if len(first.Messages) != 1 || first.Messages[0].Text != "the task" || len(first.Tools) != 2 || first.Tools[0].Name != "echo" {
		w.t.Errorf("the first request is %+v", first)
	}
	if !strings.Contains(first.System, `"docs"`) || !strings.Contains(first.System, "read-only") || strings.Contains(first.System, `"default"`) {
		w.t.Errorf("the system prompt is %s", first.System)
	}
	if n := len(second.Messages); n != 3 || second.Messages[1].Role != model.Assistant || len(second.Messages[1].Calls) != 1 {
		w.t.Fatalf("the second request is %+v", second.Messages)
	}
	if got := result(second, 0); got != (model.Result{CallID: "c1", Text: `{"ok":true}`}) {
		w.t.Errorf("the model was given %+v", got)
	}
	if s := w.pipeline.submitted[0]; s.Session != "s" || s.CallID != "c1" || s.MaxCalls != 20 || string(s.Input) != `{"x":1}` {
		w.t.Errorf("submission %+v", s)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	turn := func(stop model.Stop, u model.Usage) step {
		return func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			return model.Turn{Text: "half", Stop: stop, Usage: u}, nil
		}
	}
	modelFails := func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
		return model.Turn{}, reason.Errorf(reason.ModelUnavailable, "the provider answers 529")
	}
	loop := func(n int) []step { return slices.Repeat([]step{calls(modelCall("c", "echo", `{}`))}, n) }
	for name, c := range map[string]struct {
		steps  []step
		tools  map[string]work
		budget run.Budget
		state  run.State
		code   reason.Code
	}{
		"the model fails": {steps: []step{modelFails}, state: run.Failed, code: reason.ModelUnavailable},
		"a fault": {steps: []step{func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			return model.Turn{}, errors.New("/etc/secret: no such file")
		}}, state: run.Failed, code: reason.Internal},
		"cut off":        {steps: []step{turn(model.MaxTokens, model.Usage{OutputTokens: 7})}, state: run.Failed, code: reason.ModelBudget},
		"refused":        {steps: []step{turn(model.Refusal, model.Usage{})}, state: run.Failed, code: reason.ModelRejected},
		"calls used up":  {steps: loop(4), budget: run.Budget{Calls: 2}, state: run.Failed, code: reason.BudgetExceeded},
		"calls refused":  {steps: slices.Repeat([]step{calls(modelCall("c", "none", `{}`))}, 9), budget: run.Budget{Calls: 2}, state: run.Failed, code: reason.BudgetExceeded},
		"all calls used": {steps: append(loop(2), says("done")), budget: run.Budget{Calls: 2}, state: run.Completed},
		"tokens used up": {steps: loop(9), budget: run.Budget{Tokens: 40}, state: run.Failed, code: reason.ModelBudget},
		"last tokens":    {steps: []step{turn(model.EndTurn, model.Usage{InputTokens: 40})}, budget: run.Budget{Tokens: 40}, state: run.Completed},
		"time in the model": {
			steps: []step{waits}, budget: run.Budget{WallClock: time.Minute}, state: run.Failed, code: reason.TimeBudget,
		},
		"time in a call": {
			steps: loop(1), tools: map[string]work{"echo": sleeps(time.Hour)}, budget: run.Budget{WallClock: time.Minute}, state: run.Failed, code: reason.TimeBudget,
		},
		"time at the desk": {
			steps: loop(1), tools: map[string]work{"echo": fails(errAsk)}, budget: run.Budget{WallClock: time.Minute}, state: run.Failed, code: reason.TimeBudget,
		},
		"frozen": {
			steps: loop(2), tools: map[string]work{"echo": fails(reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway"))},
			state: run.Failed, code: reason.GatewayFrozen,
		},
		"frozen while it ran": {
			steps: loop(2), tools: map[string]work{"echo": func(context.Context, toolcall.Submission, func(string)) (tool.Report, error) {
				return tool.Report{Outcome: tool.Stopped, Reason: string(reason.GatewayFrozen), Message: "an operator froze the gateway", Remedy: "Wait."}, nil
			}},
			state: run.Failed, code: reason.GatewayFrozen,
		},
		"journal": {
			steps: loop(2), tools: map[string]work{"echo": fails(reason.Errorf(reason.JournalUnavailable, "the disk is full"))},
			state: run.Failed, code: reason.JournalUnavailable,
		},
		"pipeline closed": {
			steps: loop(2), tools: map[string]work{"echo": fails(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))},
			state: run.Interrupted, code: reason.RunInterrupted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.steps...)
				defer w.stop()
				for name, do := range c.tools {
					w.pipeline.tools[name] = do
				}
				r, inbox := w.start(run.Start{Budget: c.budget})
				end := w.finish(r.ID)
				wantEnd(t, end, c.state, c.code)
				if w.Roster.Active() != 0 {
					t.Errorf("%d runs are active", w.Roster.Active())
				}
				if strings.Contains(end.Detail, "secret") {
					t.Errorf("the end shows %q", end.Detail)
				}
				reasontest.Want(t, "the error", inbox.Say(t.Context(), "more"), reason.RunEnded)
				// Every turn of the model is journaled, also a turn whose only call could not start.
				turns := 0
				for _, code := range w.store.codes(r.ID) {
					if code == event.ModelTurn {
						turns++
					}
				}
				if turns != end.Usage.Turns {
					t.Errorf("%d turns are on record, %d were made", turns, end.Usage.Turns)
				}
			})
		})
	}
}

// A turn with too many calls makes only one call beyond the budget, which is journaled as
// denied.
func TestCallsBeyondTheBudgetAreNotMade(t *testing.T) {
	t.Parallel()
	var list []model.Call
	for i := range 50 {
		list = append(list, modelCall(fmt.Sprint("c", i), "echo", `{}`))
	}
	w := newWorld(t, calls(list...))
	defer w.stop()
	r, _ := w.start(run.Start{Budget: run.Budget{Calls: 3}})
	end := w.finish(r.ID)
	wantEnd(t, end, run.Failed, reason.BudgetExceeded)
	if n := len(w.pipeline.submitted); n != 4 || end.Usage.Calls != 4 {
		t.Errorf("%d calls were made, usage %+v", n, end.Usage)
	}
}

// A clock that was set back leaves the journal's time ahead, and does not change the time
// budget.
func TestTimeBudgetIsNotOfTheJournalsClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, waits)
		defer w.stop()
		w.store.ahead.Store(int64(24 * time.Hour))
		began := time.Now()
		r, _ := w.start(run.Start{Budget: run.Budget{WallClock: time.Minute}})
		wantEnd(t, w.finish(r.ID), run.Failed, reason.TimeBudget)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the run took %s", took)
		}
	})
}

// sleeps returns the work of a tool that takes the duration d, unless it is stopped.
func sleeps(d time.Duration) work {
	return func(ctx context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
		if output == nil {
			return tool.Report{}, nil
		}
		select {
		case <-time.After(d):
			return succeeded(`{"slept":true}`), nil
		case <-ctx.Done():
			return tool.Report{Outcome: tool.Stopped, Reason: string(reason.Cancelled), Message: "stopped"}, nil
		}
	}
}

func TestFailuresShownToTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		exit := 1
		w := newWorld(t, calls(modelCall("a", "deny", `{}`), modelCall("b", "none", `{}`), modelCall("c", "fail", `{}`), modelCall("d", "big", `{}`)), says("done"))
		defer w.stop()
		w.pipeline.tools["fail"] = func(context.Context, toolcall.Submission, func(string)) (tool.Report, error) {
			return tool.Report{Outcome: tool.Failed, Reason: string(reason.ToolFailed), Message: "exit 1", ExitCode: &exit, Result: json.RawMessage(`{"stderr":"no"}`)}, nil
		}
		w.pipeline.tools["big"] = returns(`"` + strings.Repeat("é", run.MostResult) + `"`)
		r, _ := w.start(run.Start{})
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		request := w.model.asked(2)
		for i, want := range []struct {
			id, text string
		}{
			{"a", `{"outcome":"denied","reason":"POLICY_DENIED","message":"Policy does not allow this call.","remedy":"Ask an operator."}`},
			{"b", `{"outcome":"refused","reason":"UNKNOWN_TOOL","message":"tool \"none\" not found","remedy":"List the tools with ` + "`palyra tools`" + `."}`},
			{"c", `{"outcome":"failed","reason":"TOOL_FAILED","message":"exit 1","result":{"stderr":"no"}}`},
		} {
			if got := result(request, i); got.CallID != want.id || got.Text != want.text || !got.Failed {
				t.Errorf("call %s gave %+v, want %s", want.id, got, want.text)
			}
		}
		big := result(request, 3)
		if len(big.Text) > run.MostResult+200 || !strings.HasPrefix(big.Text, `"éé`) || !strings.Contains(big.Text, "[truncated by the gateway") || strings.ContainsRune(big.Text, '�') {
			t.Errorf("the large result has %d bytes and ends with %q", len(big.Text), big.Text[len(big.Text)-120:])
		}
	})
}

func TestCallsOverlapAndResultsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []model.Call
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			list = append(list, modelCall(id, "echo", `"`+id+`"`))
		}
		w := newWorld(t, calls(list...), says("done"))
		defer w.stop()
		var now, most atomic.Int32
		w.pipeline.tools["echo"] = func(_ context.Context, s toolcall.Submission, output func(string)) (tool.Report, error) {
			if output == nil {
				return tool.Report{}, nil
			}
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Duration(200-s.Input[1]) * time.Millisecond) // the first call takes longest
			return succeeded(string(s.Input)), nil
		}
		r, _ := w.start(run.Start{})
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		if most.Load() != 4 {
			t.Errorf("%d calls went on at once, want 4", most.Load())
		}
		for i, c := range list {
			if got := result(w.model.asked(2), i); got.CallID != c.ID || got.Text != string(c.Input) {
				t.Errorf("result %d is %+v", i, got)
			}
		}
		for _, s := range w.pipeline.submitted {
			if len(s.Lead) > 0 {
				t.Error("a call among several carries the turn")
			}
		}
	})
}

func TestApprovalInsideARun(t *testing.T) {
	t.Parallel()
	for name, yes := range map[string]bool{"allowed": true, "denied": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, calls(modelCall("c1", "ask", `{}`)), says("done"))
				defer w.stop()
				w.pipeline.tools["ask"] = func(_ context.Context, _ toolcall.Submission, output func(string)) (tool.Report, error) {
					if output == nil {
						return tool.Report{}, errAsk
					}
					return succeeded(`{}`), nil
				}
				r, _ := w.start(run.Start{})
				q := <-w.approvals.asked
				synctest.Wait()
				if got, _ := w.Get(t.Context(), r.ID); got.State != run.Running || got.Usage.Calls != 1 {
					t.Errorf("while it waits the run is %s with %+v", got.State, got.Usage)
				}
				q.answer <- yes
				wantEnd(t, w.finish(r.ID), run.Completed, "")
				list := w.events(r.ID, 0)
				want := []string{"started", "turn", "proposed", "asked", "resolved", "decision"}
				if yes {
					want = append(want, "result", "attestation")
				}
				if got := kinds(list); !slices.Equal(got[:len(want)], want) {
					t.Fatalf("tape %v, want %v", got, want)
				}
				if list[3].Asked.ID != q.record.ID || list[3].Asked.Run != r.ID {
					t.Errorf("asked %+v", list[3].Asked)
				}
				state := map[bool]string{true: "allowed", false: "denied"}[yes]
				if got := list[4].Resolved; got.ApprovalID != q.record.ID || string(got.State) != state {
					t.Errorf("resolved %+v", got)
				}
			})
		})
	}
}

func TestRefusedProposalIsProposedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls(modelCall("c1", "none", `{"x":`)), says("done"))
		defer w.stop()
		r, _ := w.start(run.Start{})
		w.finish(r.ID)
		list := w.events(r.ID, 0)
		if got := kinds(list); !slices.Equal(got[2:4], []string{"proposed", "decision"}) {
			t.Fatalf("tape %v", got)
		}
		if d := list[3].Decision; d.Allowed || d.Reason != reason.UnknownTool || list[3].CallID != "c1" || list[2].Proposed.Tool != "none" {
			t.Errorf("decision %+v of %q", d, list[3].CallID)
		}
	})
}
