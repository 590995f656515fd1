// Package dispatch runs permitted calls. It plans the call again and redeems the permit, which
// verifies that the call is still the decided one. It then passes the call to the executor of
// its tool. No other code calls an executor.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

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

// Frozen reports whether calls are prevented from starting.
func (r *Router) Frozen() bool {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	return r.brake.frozen
}

// Resolver is a Tool that can detect calls with different arguments and the same effect. For
// example, calls that read "a.txt" and "./a.txt" have the same tool.Resolved. Calls of a tool
// that is not a Resolver are the same only if their canonical arguments are.
type Resolver interface {
	tool.Runnable
	// Resolve is called for a planned call. It has no effect.
	Resolve(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
}

// Resolved returns the normalized effect of a planned call, independent of the form of its
// arguments.
func (r *Router) Resolved(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return tool.Resolved{}, err
	}
	if t, ok := e.tool.(Resolver); ok {
		ctx, end := tool.Isolate(ctx)
		defer end()
		return t.Resolve(ctx, p, plan)
	}
	return tool.Resolved{Act: e.descriptor.Name, What: map[string]any{"arguments": canonical.Digest(p.Input)}}, nil
}
