package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/core/version"
	"palyra/internal/exec/skill"
	skillcatalog "palyra/internal/exec/skill/catalog"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
)

// skills holds the installed skills and their tools.
type skills struct {
	registry *registry.Registry
	catalog  *skillcatalog.Catalog
	// set lists the skills that have registered tools.
	set []string
}

// openSkills loads the installed skills and registers their tools. The policies loaded next may
// name them. No other part depends on a skill: a modified skill has no tools.
func openSkills(ctx context.Context, g *gateway, _ Options) (err error) {
	l := guestLimits(g.cfg.WASM)
	g.skills.registry, err = registry.New(ctx, registry.Config{
		Store: g.stores.skills, Guard: guard(g), Dir: statedir.Skills(g.cfg.StateDir), Limits: skillLimits(g.cfg, l), Log: g.log,
		Compile: func(ctx context.Context, m guest.Module) error { return compileGuest(ctx, g, m) },
		Changed: func(ctx context.Context) error { return setSkills(ctx, g) },
	})
	if err != nil {
		return err
	}
	g.skills.catalog = skillcatalog.New(skillcatalog.Config{
		Packages: g.skills.registry, Guests: g.guests.runner, Ready: func() error { return skillsReady(g) },
		Limits: l, FuelCeiling: uint64(g.cfg.WASM.FuelCeiling), ModuleBytes: g.cfg.WASM.MaxModuleBytes,
		Wildcards: g.cfg.Skills.AllowWildcards, BytesOut: g.cfg.ProcessRunner.EgressBudget.BytesOut,
		Web: g.fetcher, Lender: g.lending, Storage: g.stores.guestData, StorageBytes: g.cfg.Skills.MaxStorageBytes, Version: version.Get().Version, Log: g.log,
	})
	if err := setSkills(ctx, g); err != nil {
		g.log.WarnContext(ctx, "some skills have no tools", slog.String("problem", err.Error()))
	}
	return nil
}

// skillLimits returns the limits of packages.
func skillLimits(cfg *config.Config, l guest.Limits) skill.Limits {
	s := module.DefaultLimits()
	s.ModuleBytes, s.TableElements, s.MemoryPages = int(cfg.WASM.MaxModuleBytes), uint64(l.TableElements), uint64(l.MemoryBytes)>>16
	return skill.Limits{Structure: s, FuelCeiling: uint64(cfg.WASM.FuelCeiling), Wildcards: cfg.Skills.AllowWildcards, Palyra: version.Get().Version}
}

// skillsReady returns the reason why the tools of skills cannot run, or nil.
func skillsReady(g *gateway) error {
	if !g.cfg.Skills.Enabled {
		return reason.Errorf(reason.SandboxDisabled, "skills.enabled is false").WithRemedy("Set it to true.")
	}
	return g.guests.ready()
}

// compileGuest compiles a module when its skill is installed, so that no call waits for it. If
// guests cannot run yet, the module is compiled when they can.
func compileGuest(ctx context.Context, g *gateway, m guest.Module) error {
	if !g.guests.canRun() {
		return nil
	}
	return g.guests.runner.Prepare(ctx, m)
}

// setSkills registers the tools of the current versions, regardless of their status: policy reports
// why an inactive one does not run.
func setSkills(ctx context.Context, g *gateway) error {
	var errs []error
	var set []string
	for _, i := range g.skills.registry.List() {
		if !i.Current || i.Problem != nil {
			continue
		}
		if err := setSkill(g, i); err != nil {
			errs = append(errs, fmt.Errorf("the skill %s has no tools: %w", i.Name(), err))
			continue
		}
		set = append(set, i.Skill)
	}
	for _, gone := range g.skills.set {
		if !slices.Contains(set, gone) {
			errs = append(errs, g.router.SetTools(skillSource(gone), nil))
		}
	}
	g.skills.set = set
	var active []string
	if g.cfg.Skills.Enabled {
		active = g.skills.registry.Active()
	}
	errs = append(errs, g.policies.Active.SetSkills(ctx, active))
	return errors.Join(errs...)
}

// skillSource is the source of the tools of a skill.
func skillSource(id string) string { return "skill " + id }

func setSkill(g *gateway, i registry.Installed) error {
	tools, err := g.skills.catalog.Tools(i.Manifest, i.Digest)
	if err != nil {
		return err
	}
	var list []tool.Runnable
	for _, t := range tools {
		list = append(list, t)
	}
	return g.router.SetTools(skillSource(i.Skill), list)
}
