package dispatch

import (
	"context"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

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
