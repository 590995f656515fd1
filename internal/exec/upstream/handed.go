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
	"palyra/internal/exec/program/injecting"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/vault"
)

// A server that gets secrets as they are has them as long as it runs, and not as long as
// a call: so people are asked when it starts. Starting it is a call of its own, of
// <server>/mcp.start, which the gateway makes itself when a call needs the server.

// handed is what a program was given of the vault. It is nil for one that got nothing.
type handed struct {
	given injecting.Given
	// back ends the leases; over is closed when one of them has ended.
	back func()
	over chan struct{}
}

// injectionsFor are the secrets that a server gets as they are, all or none.
func (m *Manager) injectionsFor(ctx context.Context, l *launch, p tool.Proposal) error {
	s := l.server
	if len(s.Inject) == 0 {
		return nil
	}
	if m.use.Lender == nil {
		return reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s needs secrets of one", s.Name)
	}
	for _, name := range s.Inject {
		i, err := m.use.Lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		i.Server, i.Within = s.Name, vault.MaxLease.String()
		list, refused := injecting.Place(l.injections, i, s.Environment(), l.secrets)
		if refused != nil {
			return refused
		}
		l.injections = list
	}
	slices.SortFunc(l.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	return nil
}

// hand leases the secrets that a decided start was allowed.
func (m *Manager) hand(ctx context.Context, c tool.Call, l launch) (*handed, error) {
	h := &handed{over: make(chan struct{})}
	values, back, err := m.use.Lender.InjectUntil(ctx, c, l.injections, "the upstream server "+l.server.Name, time.Now().Add(vault.MaxLease), sync.OnceFunc(func() { close(h.over) }))
	h.back = sync.OnceFunc(back)
	if err == nil {
		h.given, err = injecting.Give(l.injections, values)
	}
	if err != nil {
		h.end()
		return nil, err
	}
	return h, nil
}

// end gives back what a program that is gone had.
func (h *handed) end() {
	if h != nil {
		h.back()
	}
}

// forget wipes the values. No text is cleaned of them any more.
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

// errTaken ends a program whose secrets are not lent to it any more.
var errTaken = errors.New("a secret of the server was taken back, or its lease has ended")

// guard ends a program when one of its leases has.
func (in *instance) guard() {
	select {
	case <-in.ended:
		return
	case <-in.handed.over:
	}
	select {
	case <-in.ended: // which ended the lease
	default:
		in.mu.Lock()
		in.over = true
		in.mu.Unlock()
		in.stop(errTaken)
	}
}

// starting is the tool that starts a server which gets secrets as they are. It
// implements tool.Runnable.
type starting struct{ proxied }

// starter is that of a server.
func (m *Manager) starter(s declared.Server, digest string) starting {
	return starting{proxied{
		manager: m, server: s, digest: digest, name: declared.Start,
		descriptor: tool.Descriptor{
			Name: s.Name + "/" + declared.Start, Title: "Start a server",
			Description: "Start the upstream server " + s.Name + ", which gets secrets as they are: people are asked about each. A call of one of its tools does it by itself.",
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`), Executor: tool.MCPUpstream,
			// To be there is no capability: what the program does is decided with each call of
			// its tools, and what it gets with each secret.
			ReadOnly: true,
		},
	}}
}

// Unusable implements tool.Runnable. A server whose definitions changed can start: it
// has to, to be looked at.
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

// errUnstarted says that people have to be asked before an instance can start.
var errUnstarted = errors.New("the server gets secrets when it starts")

// unstarted is errUnstarted for those who do not ask.
func unstarted(server string) *reason.Error {
	return reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s gets secrets as they are, and does not run for you at present: people are asked when it starts", server).
		WithRemedy("`palyra mcp refresh %s` starts it and asks.", server)
}

// askToStart has a server started for a call, in the name of who makes it. The time of the call
// stands still while people are asked.
func (m *Manager) askToStart(ctx context.Context, c tool.Call, l launch) error {
	s, err := m.slot(slotKey{l.server.Name, l.owner})
	if err != nil {
		return err
	}
	select {
	case s.asking <- struct{}{}: // others wait for the same answer
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if in := s.current.Load(); in != nil && in.alive() && in.made == l.key() {
		return nil
	}
	if m.asking.calls == nil {
		return reason.Errorf(reason.ShuttingDown, "the gateway decides nothing yet")
	}
	if c.Pause != nil {
		defer c.Pause()()
	}
	from := c.Proposal
	out, err := m.asking.calls.CallDependent(ctx, tool.DependentCall{
		Caller: from.Caller, Tool: l.server.Name + "/" + declared.Start, Channel: from.Channel, Session: c.Peer.Session,
	}, func(approval string) {
		if c.Peer.Progress != nil {
			c.Peer.Progress(tool.Progress{Message: "waiting for approval " + approval + ": the upstream server " + l.server.Name + " gets secrets when it starts"})
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
