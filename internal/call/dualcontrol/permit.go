package dualcontrol

import (
	"context"
	"sync/atomic"

	"palyra/internal/core/change"
)

type permitKey struct{}

// permit allows the operations below to make one change of a kind, while Plan.Make runs.
type permit struct {
	gate  *Gate
	kind  change.Kind
	ended atomic.Bool
}

// make makes the change of a plan, with the permit that its operation requires.
func (g *Gate) make(ctx context.Context, p *Plan) (any, error) {
	granted := &permit{gate: g, kind: p.Kind}
	defer granted.ended.Store(true)
	return p.Make(context.WithValue(ctx, permitKey{}, granted))
}

// Guard permits a change that this gate makes in ctx: one that a second person has approved,
// or for which DualControl requires none. It is a change.Guard.
func (g *Gate) Guard(ctx context.Context, kind change.Kind) error {
	granted, ok := ctx.Value(permitKey{}).(*permit)
	if !ok || g == nil || granted.gate != g || granted.kind != kind || granted.ended.Load() {
		return change.Refused(kind)
	}
	return nil
}
