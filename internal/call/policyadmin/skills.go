package policyadmin

import (
	"context"
	"slices"

	"palyra/internal/evidence/journal"
)

// SetSkills says which skills are active: no call of another skill's tool is allowed,
// whatever policies say. It is in force when it returns. Before Load nothing is in
// force yet, and Load counts it in.
func (p *Admin) SetSkills(ctx context.Context, active []string) error {
	var list []string
	if len(active) > 0 {
		list = slices.Compact(slices.Sorted(slices.Values(active)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skills = list
	if p.use.Engine.Current() == nil {
		return nil
	}
	// What was taken away has to be gone even if whoever took it has left.
	ctx = context.WithoutCancel(ctx)
	_, err := p.apply(ctx, journal.Daemon, candidate{sources: p.running.sources, activated: p.running.activated})
	return err
}
