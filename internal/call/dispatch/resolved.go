package dispatch

import (
	"context"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// Resolver is a Tool that knows when two calls with different arguments do the
// same. Reading "a.txt" and "./a.txt" have the same tool.Resolved. Calls of a tool
// that is no Resolver are the same only when their canonical arguments are.
type Resolver interface {
	tool.Runnable
	// Resolve is asked about a call that was planned. It has no effect.
	Resolve(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
}

// Resolved says what a planned call does, whatever its arguments look like.
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
