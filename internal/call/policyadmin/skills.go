package policyadmin

import (
	"context"
	"slices"

	"palyra/internal/evidence/journal"
)

// SetSkills sets the active skills: calls of other skills' tools are denied, regardless of
// policies. The change is in force when SetSkills returns. Before Load, when no set is in
// force, the skills are included by Load.
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
	// A deactivation must be completed even if its caller has disconnected.
	ctx = context.WithoutCancel(ctx)
	_, err := p.apply(ctx, journal.Daemon, candidate{sources: p.running.sources, activated: p.running.activated})
	return err
}
