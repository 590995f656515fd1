package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace/overlay"
)

// A server that receives secrets as plain values keeps them while it runs, not only during a
// call. Approval is therefore requested when it starts. The start is a separate call of
// <server>/mcp.start, which the gateway makes itself when a call needs the server.

// handed holds the vault secrets given to a program, nil if it received none.
type handed struct {
	given envsecret.Secrets
	// back ends the leases; over is closed when one of them has ended.
	back func()
	over chan struct{}
}

// end returns the leases of a program that has exited.
func (h *handed) end() {
	if h != nil {
		h.back()
	}
}

// forget wipes the values. After that, outputs are not scrubbed of them.
func (h *handed) forget() {
	if h != nil {
		h.end()
		h.given.Wipe()
	}
}

func (h *handed) judge(set overlay.Set) error {
	if h == nil {
		return nil
	}
	return h.given.Judge(set)
}

func (h *handed) clean(r tool.Report) tool.Report {
	if h == nil {
		return r
	}
	return h.given.Clean(r)
}

// errTaken ends a program whose secrets are no longer lent to it.
var errTaken = errors.New("a secret of the server was revoked, or its lease has expired")

// guard ends the program when one of its leases ends.
func (in *instance) guard() {
	select {
	case <-in.process.ended:
		return
	case <-in.handed.over:
	}
	select {
	case <-in.process.ended: // its end returned the leases
	default:
		in.mu.Lock()
		in.over = true
		in.mu.Unlock()
		in.process.stop(errTaken)
	}
}

// starting is the tool that starts a server which receives secrets as plain values. It implements
// tool.Runnable.
type starting struct{ proxied }

// startTool returns the start tool of a server.
func startTool(m *Manager, s declared.Server, digest string) starting {
	return starting{proxied{
		manager: m, server: s, digest: digest, name: declared.Start,
		descriptor: tool.Descriptor{
			Name: s.Name + "/" + declared.Start, Title: "Start a server",
			Description: "Start the upstream server " + s.Name + ", which receives secrets as plain values: each of them requires approval. A call of one of its tools starts it automatically.",
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`), Executor: tool.MCPUpstream,
			// Starting has no capability: the effects of the program are decided with each call
			// of its tools, and its secrets one by one.
			ReadOnly: true,
		},
	}}
}

// Unusable implements tool.Runnable. A server with changed definitions can start, because it must
// run to be inspected.
func (t starting) Unusable() error { return t.manager.Runs() }

// Plan implements tool.Runnable.
func (t starting) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	_, plan, err := t.prepare(ctx, p)
	return plan, err
}

// Prepare implements tool.Runnable.
func (t starting) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	l, plan, err := t.prepare(ctx, p)
	return l.prepared(plan, err, t.run)
}

func (t starting) prepare(ctx context.Context, p tool.Proposal) (launch, tool.Plan, error) {
	if err := t.Unusable(); err != nil {
		return launch{}, tool.Plan{}, err
	}
	l, err := t.manager.launcher.launchFor(ctx, t.server, t.digest, p)
	if err != nil {
		return launch{}, tool.Plan{}, err
	}
	plan, err := t.plan(l)
	plan.Injections = l.injections
	plan.Preview.Summary = fmt.Sprintf("Start the upstream server %s (%s, in a sandbox).", t.server.Name, strings.Join(t.server.Command, " "))
	plan.SubjectCovers = "any start of the upstream server " + t.server.Name
	return l, plan, err
}

func (t starting) run(ctx context.Context, c tool.Call, l launch) tool.Report {
	m, report := t.manager, newReport(t.manager.use.Version)
	report.Egress.Allowed = hosts(c.Plan)
	started := report.StartedAt
	lent, end, err := m.launcher.lend(ctx, c, &l, 0)
	defer end()
	if err != nil {
		return failed(ctx, report, err)
	}
	in, leave, err := m.Pool.enterBy(ctx, l, func(s *slot) (*instance, error) {
		if s.good(l) {
			return s.instance, nil
		}
		var err error
		if l.handed, err = m.launcher.hand(ctx, c, l); err != nil {
			return nil, err
		}
		in, err := m.Pool.fill(ctx, s, l, lent)
		if err != nil {
			l.handed.forget()
		}
		return in, err
	})
	if err != nil {
		return failed(ctx, report, err)
	}
	defer leave()
	in.describe(&report, started)
	if report.Result, err = canonical.Marshal(map[string]any{"server": t.server.Name, "instance": in.id}); err != nil {
		return failed(ctx, report, err)
	}
	report.Outcome = tool.Succeeded
	return in.handed.clean(report).Finish()
}

// errUnstarted reports that an instance needs approval before it can start.
var errUnstarted = errors.New("the server receives secrets when it starts")

// unstarted is errUnstarted for callers that cannot request approval.
func unstarted(server string) *reason.Error {
	return reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s receives secrets as plain values and is not running for you: its start requires approval", server).
		WithRemedy("Run `palyra mcp refresh %s` to start it and request approval.", server)
}
