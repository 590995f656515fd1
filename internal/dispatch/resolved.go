package dispatch

import (
	"context"

	"palyra/internal/canonical"
	"palyra/internal/tool"
)

// Resolver is a Tool that knows what a call comes to however it is spelled.
// One that is none is known by its canonical arguments.
type Resolver interface {
	Tool
	// Resolve is asked about a call that was planned. It has no effect.
	Resolve(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
}

// Resolved says what a planned call comes to.
func (r *Router) Resolved(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return tool.Resolved{}, err
	}
	if t, ok := e.tool.(Resolver); ok {
		return t.Resolve(ctx, p, plan)
	}
	return tool.Resolved{Act: e.descriptor.Name, What: map[string]any{"arguments": canonical.Digest(p.Input)}}, nil
}
