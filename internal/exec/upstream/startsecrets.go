package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/vault"
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

// injectionsFor adds the secrets that a server receives as plain values: either all of them or an
// error.
func (m *Manager) injectionsFor(ctx context.Context, l *launch, p tool.Proposal) error {
	s := l.server
	if len(s.Inject) == 0 {
		return nil
	}
	if m.use.Lender == nil {
		return reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s requires secrets", s.Name)
	}
	for _, name := range s.Inject {
		i, err := m.use.Lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		i.Server, i.Within = s.Name, vault.MaxLease.String()
		list, refused := envsecret.Place(l.injections, i, s.Environment(), l.secrets)
		if refused != nil {
			return refused
		}
		l.injections = list
	}
	slices.SortFunc(l.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	return nil
}

// hand leases the secrets of an allowed start.
func (m *Manager) hand(ctx context.Context, c tool.Call, l launch) (*handed, error) {
	h := &handed{over: make(chan struct{})}
	values, back, err := m.use.Lender.InjectUntil(ctx, c, l.injections, "the upstream server "+l.server.Name, time.Now().Add(vault.MaxLease), sync.OnceFunc(func() { close(h.over) }))
	h.back = sync.OnceFunc(back)
	if err == nil {
		h.given, err = envsecret.New(l.injections, values)
	}
	if err != nil {
		h.end()
		return nil, err
	}
	return h, nil
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
	case <-in.ended:
		return
	case <-in.handed.over:
	}
	select {
	case <-in.ended: // its end returned the leases
	default:
		in.mu.Lock()
		in.over = true
		in.mu.Unlock()
		in.stop(errTaken)
	}
}

// starting is the tool that starts a server which receives secrets as plain values. It implements
// tool.Runnable.
type starting struct{ proxied }

// starter returns the start tool of a server.
func (m *Manager) starter(s declared.Server, digest string) starting {
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
	l, err := t.manager.launchFor(ctx, t.server, t.digest, p)
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
	m, report := t.manager, t.manager.report()
	report.Egress.Allowed = hosts(c.Plan)
	started := report.StartedAt
	lent, end, err := m.lend(ctx, c, &l, 0)
	defer end()
	if err != nil {
		return failed(ctx, report, err)
	}
	in, leave, err := m.enterBy(ctx, l, func(s *slot) (*instance, error) {
		if s.good(l) {
			return s.instance, nil
		}
		var err error
		if l.handed, err = m.hand(ctx, c, l); err != nil {
			return nil, err
		}
		in, err := m.fill(ctx, s, l, lent)
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

// askToStart starts a server for a call, on behalf of its caller. The call's timeout pauses while
// approval is pending.
func (m *Manager) askToStart(ctx context.Context, c tool.Call, l launch) error {
	s, err := m.slot(slotKey{l.server.Name, l.owner})
	if err != nil {
		return err
	}
	select {
	case s.asking <- struct{}{}: // concurrent calls wait for the same answer
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if in := s.current.Load(); in != nil && in.alive() && in.made == l.key() {
		return nil
	}
	if m.asking.calls == nil {
		return reason.Errorf(reason.ShuttingDown, "the gateway is not ready to decide calls")
	}
	if c.Pause != nil {
		defer c.Pause()()
	}
	from := c.Proposal
	out, err := m.asking.calls.CallDependent(ctx, tool.DependentCall{
		Caller: from.Caller, Tool: l.server.Name + "/" + declared.Start, Channel: from.Channel, Session: c.Peer.Session,
	}, func(approval string) {
		if c.Peer.Progress != nil {
			c.Peer.Progress(tool.Progress{Message: "waiting for approval " + approval + ": the upstream server " + l.server.Name + " receives secrets when it starts"})
		}
	})
	switch r := out.Report; {
	case err != nil:
		return err
	case out.Denied != nil:
		return reason.Errorf(out.Denied.Code, "the upstream server %s was not started: %w", l.server.Name, out.Denied).WithRemedy("%s", out.Denied.Remedy)
	case r.Outcome != tool.Succeeded:
		return reason.Errorf(reason.Code(r.Reason), "%s", r.Message).WithRemedy("%s", r.Remedy)
	}
	return nil
}
