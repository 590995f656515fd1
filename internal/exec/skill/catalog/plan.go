package catalog

import (
	"context"
	"encoding/hex"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
)

// prepared is a call with its resources.
type prepared struct {
	call   guest.Call
	grants grants
}

// Plan implements tool.Runnable.
func (t Tool) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	_, plan, err := t.prepare(ctx, p)
	return plan, err
}

// Prepare implements tool.Runnable.
func (t Tool) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	made, plan, err := t.prepare(ctx, p)
	return tool.Prepared{Plan: plan, Run: func(ctx context.Context, c tool.Call) tool.Report { return t.run(ctx, c, made) }}, err
}

// prepare loads the package again, so that the plan matches the run.
func (t Tool) prepare(ctx context.Context, p tool.Proposal) (made prepared, plan tool.Plan, err error) {
	if err := t.use.Ready(); err != nil {
		return made, plan, err
	}
	made.call = guest.Call{Caller: guest.CallerOf(p.Caller), Tool: t.is.ID, Input: p.Input, Clock: t.is.Capabilities.Clock, Random: t.is.Capabilities.Random}
	if made.call.Limits, err = t.limits(); err != nil {
		return made, plan, err
	}
	if made.call.Module, err = t.load(ctx, made.call.Limits); err != nil {
		return made, plan, err
	}
	if made.grants, err = t.grants(ctx, p, made.call.Limits.Wall.String()); err != nil {
		return made, plan, err
	}
	return made, t.plan(made), nil
}

func (t Tool) load(ctx context.Context, l guest.Limits) (guest.Module, error) {
	p, err := t.use.Packages.Load(ctx, t.skill.ID, t.skill.Version)
	if err != nil {
		return guest.Module{}, err
	}
	if p.Digest != t.digest {
		return guest.Module{}, reason.Errorf(reason.BindingMismatch, "the package of %s %s has the digest %s, but its tools belong to the package %s", t.skill.ID, t.skill.Version, p.Digest, t.digest).
			WithRemedy("Call again: the tools are updated when a package is replaced.")
	}
	t.module.mu.Lock()
	defer t.module.mu.Unlock()
	if t.module.module == nil {
		m, err := p.Module(t.is, t.bounds(l))
		if err != nil {
			return m, err
		}
		m.Bytes = nil // the loader of the package holds them
		t.module.module = &m
	}
	m := *t.module.module
	m.Bytes = p.Modules[t.is.Module]
	return m, nil
}

func (t Tool) plan(m prepared) tool.Plan {
	c, g, capabilities := m.call, m.grants, t.is.Capabilities
	profile := fmt.Sprintf("WebAssembly guest sha256:%s of the skill %s %s (%s): fuel %d, memory %d bytes, %s", hex.EncodeToString(c.Module.Digest[:]),
		t.skill.ID, t.skill.Version, t.digest, c.Limits.Fuel, c.Limits.MemoryBytes, c.Limits.Wall)
	if words := g.profile(capabilities); words != "" {
		profile += "; " + words
	}
	plan := tool.Plan{
		Binding: tool.Binding{SandboxProfile: profile, Environment: g.environment(), Egress: g.hosts()},
		Facts: tool.Facts{
			Risk: t.is.RiskOf(), EgressMode: egress.Strict.String(), EgressHosts: g.hosts(), Secrets: g.secretNames(),
			SandboxTier: string(sandbox.TierA), SandboxLevel: sandbox.LevelStrict,
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Run %s, a tool of the skill %s %s by %s, with fuel %d.", t.is.ID, t.skill.ID, t.skill.Version, t.skill.Publisher, c.Limits.Fuel),
			Notes:   g.notes(capabilities),
		},
		Subject: t.name() + "@" + t.digest, SubjectCovers: fmt.Sprintf("any call of %s, in version %s of the skill", t.name(), t.skill.Version),
		Injections: g.injections(),
	}
	if len(plan.Binding.Egress) == 0 {
		plan.Binding.Egress = []string{egress.Strict.String()}
	} else {
		plan.MaySend = t.use.BytesOut
	}
	return plan
}
