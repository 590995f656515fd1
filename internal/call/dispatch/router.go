// Package dispatch runs permitted calls. It plans the call again and redeems the permit, which
// verifies that the call is still the decided one. It then passes the call to the executor of
// its tool. No other code calls an executor.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/core/tool"
)

// Config is the configuration of a Router.
type Config struct {
	Tools []tool.Runnable
	// Snapshot returns the digest of the policy snapshot in force.
	Snapshot func() string
	// Timeout is the maximum duration of a call; it must be positive.
	Timeout time.Duration
	// Log receives alarms, and the tool failures that are not returned to callers; it may be
	// nil.
	Log *slog.Logger
}

// Router finds tools and runs decided calls.
//
// A router MUST plan a call again and redeem its permit before the executor starts, and MUST report
// exactly one outcome. It MUST NOT run a call of a suspended tool or of a frozen gateway.
type Router struct {
	// Catalog has the tools. The tools of New have the source "".
	Catalog
	snapshot func() string
	timeout  time.Duration
	log      *slog.Logger
	brake    brake
}

// New returns a router. It fails if cfg is not valid, two tools have the same name, or a schema
// does not compile.
func New(cfg Config) (*Router, error) {
	if cfg.Snapshot == nil || cfg.Timeout <= 0 {
		return nil, errors.New("dispatch needs a snapshot function and a positive timeout")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{Catalog: Catalog{sources: make(map[string][]*entry)}, snapshot: cfg.Snapshot, timeout: cfg.Timeout, log: cfg.Log}
	if err := r.SetTools("", cfg.Tools); err != nil {
		return nil, err
	}
	return r, nil
}

// limit returns the maximum duration of a call of the named tool. It is the configured one, or
// the tool's own for calls that run elsewhere, for which the gateway only waits.
func (r *Router) limit(name string) time.Duration {
	if e := r.tools.Load().byName[name]; e != nil && e.descriptor.Executor == tool.External {
		if t, ok := e.tool.(interface{ Limit() time.Duration }); ok {
			return t.Limit()
		}
	}
	return r.timeout
}

// Plan determines the effects of the call and fills the binding fields that are common to all
// tools.
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

// bind fills the fields of a binding that are common to all tools.
func (e *entry) bind(b *tool.Binding, p *tool.Proposal) {
	b.Principal = p.Caller.Principal.String()
	b.OnBehalfOf = p.Caller.OnBehalfOf.String()
	b.Tool = e.descriptor.Name
	b.ToolDefinitionDigest = e.digest
	b.Arguments = p.Input
}

// prepare plans the call again and holds the inspected resources. After an error nothing is
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

// Frozen reports whether calls are prevented from starting.
func (r *Router) Frozen() bool {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	return r.brake.frozen
}
