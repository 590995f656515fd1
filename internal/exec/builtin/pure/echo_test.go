package pure

import (
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func TestEchoReturnsItsInput(t *testing.T) {
	t.Parallel()
	e := Echo{Version: "v1"}
	input := []byte(`{"data":[1,"two"],"text":"hello"}`)
	plan, err := e.Plan(t.Context(), tool.Proposal{Input: input})
	if err != nil || plan.Subject != e.Descriptor().Name || plan.Facts.SandboxLevel != "none" {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	p := must.Get(e.Prepare(t.Context(), tool.Proposal{Input: input}))(t)
	r := p.Run(t.Context(), tool.Call{Proposal: tool.Proposal{Input: input}})
	if r.Outcome != tool.Succeeded || string(r.Result) != string(input) || r.Executor.Version != "v1" {
		t.Errorf("the report is %+v", r)
	}
	if r.StartedAt.IsZero() || r.FinishedAt.Before(r.StartedAt) {
		t.Errorf("it ran from %s to %s", r.StartedAt, r.FinishedAt)
	}
}
