package hook

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// Tools are the tools of all agents, for dispatch.
type Tools struct {
	workspaces *workspace.Set
	guards     []files.Guarded
	home       string
	now        func() time.Time
}

// NewTools returns the tools of all agents. Paths are resolved in the declared workspaces; guards
// are the paths that none of the tools may write.
func NewTools(workspaces *workspace.Set, guards []files.Guarded) *Tools {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // paths that begin with ~ are then not resolved
	}
	return &Tools{workspaces: workspaces, guards: resolved(guards), home: home, now: time.Now}
}

// All returns the tools for dispatch.
func (t *Tools) All() []tool.Runnable {
	var list []tool.Runnable
	for _, a := range Agents {
		for _, r := range a.every() {
			list = append(list, external{t, a, r})
		}
	}
	return list
}

// external is one tool of an agent. Running it means allowing the agent to run it.
type external struct {
	*Tools
	agent *Agent
	row   row
}

func (x external) Descriptor() tool.Descriptor { return x.agent.descriptor(x.row) }

// Limit returns how long the agent may take until it reports.
func (x external) Limit() time.Duration {
	if x.row.lasts > 0 {
		return x.row.lasts
	}
	return usually
}

// Plan plans a call that came from a hook. Any other call is refused before an approval is
// requested, because it would never run.
func (x external) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	visit := visitOf(ctx)
	if visit == nil || visit.tool != p.Tool.Name {
		return tool.Plan{}, reason.Errorf(reason.ExecutedElsewhere, "%s is run by %s itself and can be called only through its hook", p.Tool.Name, x.agent.Name)
	}
	visit.bind(p)
	return x.planOf(ctx, x.agent, x.row, visit.msg, p.Input)
}

// Prepare plans the call again. It holds no resources: the agent opens the files itself.
func (x external) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := x.Plan(ctx, p)
	if err != nil {
		return tool.Prepared{}, err
	}
	visit := visitOf(ctx)
	visit.edit(p)
	return tool.Prepared{Plan: plan, Run: func(ctx context.Context, _ tool.Call) tool.Report { return x.run(ctx, visit) }}, nil
}

// Resolve returns the identity of a call independent of how its paths are spelled: the same files,
// the same directory, and the same other arguments.
func (x external) Resolve(_ context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	what := map[string]any{}
	if err := json.Unmarshal(p.Input, &what); err != nil {
		return tool.Resolved{}, reason.Errorf(reason.InvalidInput, "reading the arguments: %w", err)
	}
	for _, name := range x.row.paths {
		delete(what, name)
	}
	if x.row.act == tool.ActShell {
		maps.DeleteFunc(what, func(name string, _ any) bool { return slices.Contains(beside, name) })
	}
	places := append([]string{plan.Binding.Cwd}, plan.Facts.External.Outside...)
	for _, path := range append([]string{plan.Facts.Path}, plan.Facts.Paths...) {
		places = append(places, plan.Facts.Workspace+":"+path)
	}
	return tool.Resolved{Act: p.Tool.Name, Places: places, What: what}, nil
}

// run allows the agent to proceed, and waits for the agent's report, the end of its session, or the
// end of ctx. The end of ctx does not stop the agent's tool, because the gateway cannot stop it.
func (x external) run(ctx context.Context, v *visit) tool.Report {
	report := tool.Report{
		Executor: tool.ExecutorInfo{Name: tool.External, Version: x.agent.Seen, Tier: "external"}, Enforcement: tool.Enforcement{Level: "none"},
		StartedAt: x.now(), Claim: &tool.Claim{Agent: x.agent.Name, State: tool.Unreported},
	}
	v.begin()
	select {
	case said := <-v.reports:
		said.put(&report, v.decided())
	case <-v.over:
		unreported(&report, "the agent's session ended before it reported the outcome of the call")
	case <-v.stopping:
		unreported(&report, "the gateway stopped before the agent reported the outcome of the call")
	case <-ctx.Done():
		unreported(&report, "the agent did not report the outcome of the call in time and may still be running it")
	}
	v.close()
	report.FinishedAt = x.now()
	report.Usage.Wall = report.FinishedAt.Sub(report.StartedAt)
	return report
}

func unreported(r *tool.Report, why string) {
	r.Outcome, r.Reason, r.Message = tool.Unknown, string(reason.Unreported), why
	r.Remedy = reason.Lookup(reason.Unreported).Remedy
}

// statement is an agent's report of a call that it ran.
type statement struct {
	failed bool
	// digest is the digest of the reported input, "" if it is not an input of the tool.
	digest  string
	message string
	// response is the tool's response, of which the digest and the length are stored.
	response []byte
}

// put writes the statement into a report. decided is the digest of the decided input.
func (s statement) put(r *tool.Report, decided string) {
	r.Claim.State, r.Claim.InputSHA256 = tool.Reported, s.digest
	if len(s.response) > 0 {
		r.Claim.ResponseSHA256, r.Claim.ResponseBytes = canonical.Digest(s.response), int64(len(s.response))
	}
	switch {
	case s.digest != decided:
		r.Claim.State, r.Outcome, r.Reason = tool.RanOther, tool.Failed, string(reason.RanOther)
		r.Message = "the agent reported another input than the decided one"
		r.Remedy = reason.Lookup(reason.RanOther).Remedy
	case s.failed:
		r.Outcome, r.Reason = tool.Failed, string(reason.ToolFailed)
		r.Message = "the agent reported failure: " + s.message
		r.Remedy = reason.Lookup(reason.ToolFailed).Remedy
	default:
		r.Outcome = tool.Succeeded
	}
}
