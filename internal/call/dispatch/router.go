// Package dispatch turns a permit into a run: it redeems the permit, plans the
// call once more, checks that it is still the call that was decided, and hands
// it to the executor of its tool. There is no other way to an executor.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Config is what a Router needs.
type Config struct {
	Tools []tool.Runnable
	// Snapshot returns the digest of the policy snapshot in force.
	Snapshot func() string
	// Timeout is the longest a call may run; it must be positive.
	Timeout time.Duration
	// Log gets the faults of tools that callers are not shown, and alarms; it may
	// be nil.
	Log *slog.Logger
}

// Router finds tools and runs decided calls.
type Router struct {
	// tools are those of all sources. setting guards sources, of which they are made: those
	// of New have the name "".
	tools    atomic.Pointer[toolset]
	setting  sync.Mutex
	sources  map[string][]*entry
	snapshot func() string
	timeout  time.Duration
	log      *slog.Logger
	brake    brake
	// suspended maps tools that may not be called to why.
	suspended atomic.Pointer[map[string]*reason.Error]
}

// toolset is a set of tools, which is never changed.
type toolset struct {
	// revision counts the sets, from 1.
	revision uint64
	byName   map[string]*entry
	// sorted are their descriptors, by name.
	sorted []tool.Descriptor
}

type entry struct {
	tool       tool.Runnable
	descriptor tool.Descriptor
	digest     string
	schema     *tool.Schema
}

// New checks the tools: names are unique, schemas compile.
func New(cfg Config) (*Router, error) {
	if cfg.Snapshot == nil || cfg.Timeout <= 0 {
		return nil, errors.New("dispatch needs a snapshot function and a positive timeout")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{sources: make(map[string][]*entry), snapshot: cfg.Snapshot, timeout: cfg.Timeout, log: cfg.Log}
	if err := r.SetTools("", cfg.Tools); err != nil {
		return nil, err
	}
	return r, nil
}

// SetTools replaces all tools of one source, such as an upstream server, at once;
// none takes them away. After an error everything is as it was. Calls that are under
// way go on with the tool that they found. Whoever sets tools has the policies made
// anew (policyadmin.Rebuild): a tool that they do not know is denied.
func (r *Router) SetTools(source string, tools []tool.Runnable) error {
	list := make([]*entry, 0, len(tools))
	for _, t := range tools {
		e, err := entryOf(t)
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	r.setting.Lock()
	defer r.setting.Unlock()
	all := &toolset{revision: r.Revision() + 1, byName: make(map[string]*entry)}
	sources := maps.Clone(r.sources)
	if sources[source] = list; len(list) == 0 {
		delete(sources, source)
	}
	for _, entries := range sources {
		for _, e := range entries {
			if _, taken := all.byName[e.descriptor.Name]; taken {
				return fmt.Errorf("two tools are named %q; rename one", e.descriptor.Name)
			}
			all.byName[e.descriptor.Name] = e
			all.sorted = append(all.sorted, e.descriptor)
		}
	}
	slices.SortFunc(all.sorted, func(a, b tool.Descriptor) int { return strings.Compare(a.Name, b.Name) })
	r.sources = sources
	r.tools.Store(all)
	return nil
}

func entryOf(t tool.Runnable) (*entry, error) {
	d := t.Descriptor()
	digest, err := d.Digest()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	schema, err := d.CompileInput()
	if err != nil {
		return nil, fmt.Errorf("tool %q: input schema: %w", d.Name, err)
	}
	return &entry{tool: t, descriptor: d, digest: digest, schema: schema}, nil
}

// Descriptors lists all tools by name. The list is the caller's.
func (r *Router) Descriptors() []tool.Descriptor { return slices.Clone(r.tools.Load().sorted) }

// Descriptor finds one tool by its name.
func (r *Router) Descriptor(name string) (tool.Descriptor, bool) {
	e, ok := r.tools.Load().byName[name]
	if !ok {
		return tool.Descriptor{}, false
	}
	return e.descriptor, true
}

// Revision is another number whenever the tools are others. Who keeps what it worked out
// of Descriptors asks for it before those.
func (r *Router) Revision() uint64 {
	if all := r.tools.Load(); all != nil {
		return all.revision
	}
	return 0
}

// Suspend keeps the named tools from being called, each with the error that
// its callers get, and lets all others go on. It replaces what was suspended
// before.
func (r *Router) Suspend(tools map[string]*reason.Error) {
	tools = maps.Clone(tools)
	r.suspended.Store(&tools)
}

// Suspended says why Suspend keeps a tool from being called, nil where it does not.
func (r *Router) Suspended(name string) *reason.Error {
	if suspended := r.suspended.Load(); suspended != nil {
		return (*suspended)[name]
	}
	return nil
}

// find finds a tool that may be called.
func (r *Router) find(name string) (*entry, error) {
	e, ok := r.tools.Load().byName[name]
	if !ok {
		return nil, r.unknown(name)
	}
	if suspended := r.Suspended(name); suspended != nil {
		return nil, suspended
	}
	return e, nil
}

// Unusable says why no call of the named tool can run at present: it is suspended,
// or the tool itself says so. It is nil for tools that can run.
func (r *Router) Unusable(name string) error {
	e, err := r.find(name)
	if err != nil {
		return err
	}
	if t, ok := e.tool.(interface{ Unusable() error }); ok {
		return t.Unusable()
	}
	return nil
}

// Effectless reports whether the named tool is Pure.
func (r *Router) Effectless(name string) bool {
	e, known := r.tools.Load().byName[name]
	if !known {
		return false
	}
	_, pure := e.tool.(tool.Pure)
	return pure
}

// limit is how long a call of the named tool may run: that of the settings, or what the
// tool says itself when its calls run elsewhere and are only waited for.
func (r *Router) limit(name string) time.Duration {
	if e := r.tools.Load().byName[name]; e != nil && e.descriptor.Executor == tool.External {
		if t, ok := e.tool.(interface{ Limit() time.Duration }); ok {
			return t.Limit()
		}
	}
	return r.timeout
}

// Check finds the tool and returns its descriptor with the canonical form of
// the input, or a refusal: UNKNOWN_TOOL, TOOL_SUSPENDED, or what is wrong with
// the input.
func (r *Router) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	e, err := r.find(name)
	if err != nil {
		return tool.Descriptor{}, nil, err
	}
	if len(input) == 0 {
		input = []byte("{}")
	}
	canonical, err := e.schema.Check(input)
	if err != nil {
		return e.descriptor, nil, err
	}
	return e.descriptor, canonical, nil
}

// Digest is the digest of a tool's definition, which policies can pin; "" when
// there is no such tool.
func (r *Router) Digest(name string) string {
	if e := r.tools.Load().byName[name]; e != nil {
		return e.digest
	}
	return ""
}

func (r *Router) unknown(name string) error {
	e := reason.Errorf(reason.UnknownTool, "there is no tool %q", name)
	if near := text.Nearest(name, slices.Sorted(maps.Keys(r.tools.Load().byName))); near != "" {
		return e.WithRemedy("Did you mean %q? `palyra tools` lists all.", near)
	}
	return e
}

// Plan works out what the call would do and fills the fields of the binding
// that are the same for every tool.
func (r *Router) Plan(ctx context.Context, p tool.Proposal) (plan tool.Plan, err error) {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return plan, err
	}
	ctx, end := tool.Isolate(ctx)
	defer end()
	plan, err = e.tool.Plan(ctx, p)
	if restricted := (*tool.RestrictedError)(nil); errors.As(err, &restricted) {
		e.bind(&restricted.Plan.Binding, &p)
	}
	if err != nil {
		return tool.Plan{}, err
	}
	e.bind(&plan.Binding, &p)
	return plan, nil
}

// bind fills the fields of a binding that are the same for every tool.
func (e *entry) bind(b *tool.Binding, p *tool.Proposal) {
	b.Principal = p.Caller.Principal.String()
	b.OnBehalfOf = p.Caller.OnBehalfOf.String()
	b.Tool = e.descriptor.Name
	b.ToolDefinitionDigest = e.digest
	b.Arguments = p.Input
}

// prepare plans the call anew and holds what it looked at. After an error nothing is
// prepared.
func (r *Router) prepare(ctx context.Context, p *tool.Proposal, prepared *tool.Prepared) error {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return err
	}
	ctx, end := tool.Isolate(ctx)
	defer end()
	if *prepared, err = e.tool.Prepare(ctx, *p); err != nil {
		*prepared = tool.Prepared{}
		return err
	}
	e.bind(&prepared.Plan.Binding, p)
	return nil
}

// Decided is a call that a decision allowed.
type Decided struct {
	Permit   *decision.Permit
	Proposal tool.Proposal
	// Plan is the one that was decided.
	Plan tool.Plan
	// Ready is asked last, right before the tool starts; its error keeps the
	// call from starting. It may be nil.
	Ready  func(context.Context) error
	Output func(stream string, chunk []byte)
	// Rejudge is asked whether the call is still allowed when the facts about the
	// machine (such as the sandbox's rung) changed since the decision. It may be
	// nil: then such a change stops the call.
	Rejudge func(tool.Facts) error
	// MayRead answers tool.Call.MayRead. It may be nil: then the call reads none
	// of the files that it finds.
	MayRead func(tool.FileAccess) bool
	// MayDisclose implements tool.Call.MayDisclose; nil discloses nothing.
	MayDisclose func([]tool.FileAccess) bool
	// Commit answers tool.Call.Commit. It may be nil: then nobody can be asked.
	Commit func(context.Context, tool.CommitRequest) (tool.CommitRuling, error)
	// Peer is tool.Call.Peer.
	Peer tool.Peer
}

// Run redeems the permit and runs the call. The report always says how it
// ended; a call that did not start has the outcome refused.
func (r *Router) Run(ctx context.Context, d *Decided) (report tool.Report) {
	started := time.Now()
	prepared := &tool.Prepared{}
	defer func() { prepared.Release() }()
	if err := r.redeem(ctx, d, prepared); err != nil {
		r.refuse(ctx, &d.Proposal, started, tool.Disclose(err, d.MayDisclose), &report)
		return report
	}
	ctx, release, err := r.brake.enter(ctx)
	if err != nil {
		r.refuse(ctx, &d.Proposal, started, err, &report)
		return report
	}
	defer release()
	if err := ready(ctx, d); err != nil {
		r.refuse(ctx, &d.Proposal, started, err, &report)
		return report
	}
	isolated, end := tool.Isolate(ctx)
	defer end()
	running, clock, stop := withDeadline(isolated, r.limit(d.Proposal.Tool.Name))
	defer stop()
	r.execute(running, prepared, d.call(running, &prepared.Plan, clock), started, &report)
	r.alarm(ctx, &d.Proposal, report.Egress.Observed)
	if report.Outcome == tool.Succeeded {
		return report
	}
	if order := ordered(running); order != nil {
		report.Reason, report.Message, report.Remedy = string(order.Code), order.Message, order.NextStep()
	}
	return report
}

// call is the call for its tool.
func (d *Decided) call(running context.Context, plan *tool.Plan, clock *deadline) *tool.Call {
	return &tool.Call{
		Proposal: d.Proposal, Plan: *plan, Output: d.Output, MayRead: d.mayRead, MayDisclose: d.MayDisclose, Commit: d.committer(running, clock), Peer: d.Peer, Pause: clock.wait,
	}
}

// ordered is the order that ended a call, a freeze or somebody's to cancel it; nil
// when there was none.
func ordered(ctx context.Context) *reason.Error {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && (order == errFrozen || order.Code == reason.Cancelled) {
		return order
	}
	return nil
}

// committer is Commit with the clock stopped while it waits. The end of the
// call ends the wait, whatever context the tool gives.
func (d *Decided) committer(running context.Context, clock *deadline) func(context.Context, tool.CommitRequest) (tool.CommitRuling, error) {
	if d.Commit == nil {
		return nil
	}
	return func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
		defer clock.wait()()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(running, func() { cancel(context.Cause(running)) })()
		return d.Commit(ctx, r)
	}
}

// ready returns nil if the call may still start: there is no freeze, its context
// has not ended, and the approval or grant was not revoked (Decided.Ready).
func ready(ctx context.Context, d *Decided) error {
	switch {
	case ordered(ctx) != nil:
		return ordered(ctx)
	case reason.Of(context.Cause(ctx)) == reason.ShuttingDown:
		return reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the call did not start")
	case ctx.Err() != nil:
		return reason.Errorf(reason.Cancelled, "the call was cancelled before it started: %w", ctx.Err())
	case d.Ready != nil:
		return d.Ready(ctx)
	}
	return nil
}

// execute runs the tool. A tool that panics has failed; what it did until then
// is attested like any other run.
func (r *Router) execute(ctx context.Context, p *tool.Prepared, c *tool.Call, started time.Time, report *tool.Report) {
	defer func() {
		if fault := recover(); fault != nil {
			*report = r.panicked(ctx, &c.Proposal, started, fault)
		}
	}()
	*report = p.Run(ctx, *c)
	r.logFault(ctx, &c.Proposal, report)
}

func (r *Router) panicked(ctx context.Context, p *tool.Proposal, started time.Time, fault any) tool.Report {
	r.log.ErrorContext(ctx, "a tool panicked", slog.String("tool", p.Tool.Name),
		slog.String("proposal", p.ID), slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
	return ended(p, started, tool.Failed, reason.Errorf(reason.Internal, "the tool failed inside the gateway"))
}

// redeem plans the call anew, into prepared, and spends the permit on what was found.
// The caller releases what was prepared, also after an error.
func (r *Router) redeem(ctx context.Context, d *Decided, prepared *tool.Prepared) error {
	if err := r.prepare(ctx, &d.Proposal, prepared); err != nil {
		return errors.Join(err, spend(d.Permit))
	}
	digest, err := prepared.Plan.Binding.Digest()
	if err != nil {
		return errors.Join(err, spend(d.Permit))
	}
	err = d.Permit.Redeem(decision.Presented{
		ProposalID:     d.Proposal.ID,
		CallDigest:     digest,
		FactsDigest:    policy.BoundDigest(&prepared.Plan),
		SnapshotDigest: r.snapshot(),
		Now:            time.Now(),
	})
	switch {
	case reason.Of(err) == reason.BindingMismatch:
		return explain(err, &d.Plan, &prepared.Plan)
	case err == nil && policy.EnvironmentChanged(&d.Plan, &prepared.Plan):
		return d.rejudge(&prepared.Plan.Facts)
	}
	return err
}

// rejudge asks about a call whose machine is not what policy was told.
func (d *Decided) rejudge(now *tool.Facts) error {
	if d.Rejudge == nil {
		return reason.Errorf(reason.BindingMismatch, "the machine changed between decision and dispatch: sandbox").WithField("field", "sandbox")
	}
	return d.Rejudge(*now)
}

// mayRead is MayRead, no when there is none.
func (d *Decided) mayRead(a tool.FileAccess) bool { return d.MayRead != nil && d.MayRead(a) }

// spend uses a permit up for a call that cannot run, so that it cannot be
// shown again.
func spend(p *decision.Permit) error {
	if err := p.Redeem(decision.Presented{Now: time.Now()}); errors.Is(err, decision.ErrNoPermit) {
		return err
	}
	return nil
}

// explain names the bound fields and facts that differ.
func explain(mismatch error, was, is *tool.Plan) error {
	diffs, err := was.Binding.Diff(is.Binding)
	if err != nil {
		return mismatch
	}
	e := reason.Errorf(reason.BindingMismatch, "%w", mismatch)
	var names []string
	for _, d := range diffs {
		names = append(names, d.Field)
		e = e.WithField(d.Field, d.Was+" -> "+d.Is)
	}
	for _, name := range policy.ChangedFacts(*was, *is) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			e = e.WithField(name, "not what policy judged")
		}
	}
	if len(names) == 0 {
		return mismatch
	}
	e.Message = "the call changed between decision and dispatch: " + strings.Join(names, ", ")
	return e
}

// refuse makes the report of a call that did not start.
func (r *Router) refuse(ctx context.Context, p *tool.Proposal, started time.Time, err error, report *tool.Report) {
	var known *reason.Error
	switch {
	case errors.As(err, &known) && known.Code != reason.Internal:
	case ordered(ctx) != nil:
		known = ordered(ctx)
	case reason.Of(context.Cause(ctx)) == reason.ShuttingDown:
		known = reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the call did not start")
	case ctx.Err() != nil:
		known = reason.Errorf(reason.Cancelled, "the call was cancelled before it started: %w", ctx.Err())
	default:
		r.log.ErrorContext(ctx, "a decided call could not start", slog.String("tool", p.Tool.Name),
			slog.String("proposal", p.ID), slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	*report = ended(p, started, tool.Refused, known)
}

// ended is the report of a call that its executor does not report on.
func ended(p *tool.Proposal, started time.Time, outcome tool.Outcome, why *reason.Error) tool.Report {
	return tool.Report{
		Outcome: outcome, Reason: string(why.Code), Message: why.Message, Remedy: why.NextStep(),
		Executor:    tool.ExecutorInfo{Name: p.Tool.Executor},
		Enforcement: tool.Enforcement{Level: "none"},
		StartedAt:   started,
		FinishedAt:  time.Now(),
	}
}
