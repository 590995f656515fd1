package gatewaytest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/tool"
)

// Probe is a tool with a configurable plan and execution, which counts its runs. Use Change for
// changes while calls are running.
type Probe struct {
	Of tool.Descriptor
	// Runs counts the executions, Closed the releases of held objects.
	Runs, Closed atomic.Int32

	mu sync.Mutex
	// Found is the result of planning, unless PlanErr is set.
	Found   tool.Plan
	PlanErr error
	// PathOfInput makes plans use the path in their input.
	PathOfInput bool
	// OnPlan is called before each plan, without the lock.
	OnPlan func(n int)
	// Planned counts the plans.
	Planned int
	// Work is the execution of a run; nil succeeds.
	Work func(context.Context, tool.Call) tool.Report
}

// NewProbe returns a tool with every element that a plan can bind to.
func NewProbe(d tool.Descriptor) *Probe {
	return &Probe{Of: d, Found: tool.Plan{
		Subject: d.Name + ":subject",
		Binding: tool.Binding{
			Cwd: "default:.", Argv: []string{"make"}, Environment: []string{"LANG=C"},
			Executable:     tool.Executable{Path: "/usr/bin/make", SHA256: Digest("1")},
			Operands:       []tool.Operand{{Path: "Makefile", SHA256: Digest("2")}},
			SandboxProfile: "c/rw/default", Egress: []string{"strict"},
		},
		Facts:   tool.Facts{Workspace: "default", SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: "Do what the test says."},
	}}
}

// Digest returns a digest of one repeated digit.
func Digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

// Descriptor implements tool.Runnable.
func (p *Probe) Descriptor() tool.Descriptor { return p.Of }

// Plan implements tool.Runnable.
func (p *Probe) Plan(_ context.Context, proposal tool.Proposal) (tool.Plan, error) {
	p.mu.Lock()
	p.Planned++
	n, hook := p.Planned, p.OnPlan
	p.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.Found
	if p.PathOfInput {
		var in struct{ Path string }
		if err := json.Unmarshal(proposal.Input, &in); err != nil {
			return tool.Plan{}, err
		}
		found.Facts.Path = in.Path
	}
	return found, p.PlanErr
}

// Prepare implements tool.Runnable.
func (p *Probe) Prepare(ctx context.Context, proposal tool.Proposal) (tool.Prepared, error) {
	plan, err := p.Plan(ctx, proposal)
	return tool.Prepared{Plan: plan, Run: p.run, Close: func() { p.Closed.Add(1) }}, err
}

func (p *Probe) run(ctx context.Context, c tool.Call) tool.Report {
	p.Runs.Add(1)
	p.mu.Lock()
	work := p.Work
	p.mu.Unlock()
	if work != nil {
		return work(ctx, c)
	}
	return Succeeded(`{"ok":true}`)
}

// Change changes the probe under its lock.
func (p *Probe) Change(fn func(*Probe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(p)
}

// Ran fails the test unless the tool ran want times.
func (p *Probe) Ran(t testing.TB, want int32) {
	t.Helper()
	if got := p.Runs.Load(); got != want {
		t.Errorf("%s ran %d times, want %d", p.Of.Name, got, want)
	}
}

// Succeeded returns the report of a builtin tool that succeeded with a result.
func Succeeded(result string) tool.Report {
	return tool.Report{
		Outcome: tool.Succeeded, Result: json.RawMessage(result),
		Executor:    tool.ExecutorInfo{Name: tool.Builtin, Tier: "builtin", Version: "test"},
		Enforcement: tool.Enforcement{Level: "none"},
		StartedAt:   time.Now().UTC(), FinishedAt: time.Now().UTC(),
	}
}

// Reports returns an execution that succeeds with a result.
func Reports(result string) func(context.Context, tool.Call) tool.Report {
	return func(context.Context, tool.Call) tool.Report { return Succeeded(result) }
}
