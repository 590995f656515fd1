package policyadmin

import (
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// setConfig returns the current inputs of a policy set. Suspended tools are in the schema but
// not allowed. The caller holds a.mu.
func (a *Active) setConfig(sources []policy.Source, tools []tool.Descriptor, suspended map[string]error) policy.Config {
	c := SetConfig(a.settings, sources, tools, a.members.List(), a.members.Roles())
	if a.provenance != nil {
		c.Controllers = a.provenance().Controllers()
	}
	Lower(&c.Snapshot, a.ceilings)
	c.Snapshot.ActiveSkills = a.skills
	c.Snapshot.AllowedTools = slices.DeleteFunc(c.Snapshot.AllowedTools, func(name string) bool { return suspended[name] != nil })
	return c
}

// SetConfig returns the inputs of a policy set under these settings.
func SetConfig(cfg *config.Config, sources []policy.Source, tools []tool.Descriptor, members []access.Member, roles []access.Role) policy.Config {
	names := make([]string, len(cfg.Workspaces))
	for i, w := range cfg.Workspaces {
		names[i] = w.Name
	}
	return policy.Config{
		Sources: sources, Tools: tools, Members: members, Roles: roles, Workspaces: names, Snapshot: snapshot(cfg, tools),
		// The surfaces of this version. A rule that requires another surface is reported as
		// unattainable, so that no call waits for it.
		Surfaces: surfaces(cfg),
	}
}

// surfaces returns the surfaces for votes.
func surfaces(cfg *config.Config) []access.Surface {
	list := []access.Surface{access.SurfaceCLI, access.SurfaceTUI, access.SurfaceGRPC, access.SurfaceStream, access.SurfaceWebhook}
	if cfg.Listen.Console != "" {
		list = append(list, access.SurfaceConsole)
	}
	if slices.ContainsFunc(cfg.Notify, func(n config.Notify) bool { return n.Decide }) {
		list = append(list, access.SurfaceSlack)
	}
	return list
}

// snapshot returns the settings of a snapshot digest: all bounds on the effects of a call.
func snapshot(cfg *config.Config, tools []tool.Descriptor) policy.Snapshot {
	s := policy.Snapshot{
		AllowedTools: []string{}, AllowSensitiveTools: cfg.AllowSensitiveTools,
		MaxCallsPerRun: cfg.MaxCallsPerRun, MaxCallsPerSession: cfg.MaxCallsPerSession, SessionIdleMS: cfg.Sessions.Idle.Milliseconds(), ExecutionTimeoutMS: cfg.ExecutionTimeoutMS,
		HTTP: policy.HTTPClient{
			AllowedHosts: cfg.HTTP.AllowedHosts, DeniedHosts: cfg.HTTP.DeniedHosts,
			MaxBytes: cfg.HTTP.MaxBytes, TimeoutMS: cfg.HTTP.TimeoutMS,
		},
	}
	s.AllowedChannels = slices.Clone(cfg.AllowedChannels)
	if !slices.Contains(cfg.AllowedPrincipals, "*") {
		s.AllowedPrincipals = []access.Principal{}
		for _, name := range cfg.AllowedPrincipals {
			if who, ok := principalOf(name); ok {
				s.AllowedPrincipals = append(s.AllowedPrincipals, who)
			}
		}
	}
	for _, d := range tools {
		if cfg.ToolAllowed(d.Name) {
			s.AllowedTools = append(s.AllowedTools, d.Name)
		}
	}
	for _, w := range cfg.Workspaces {
		s.Workspaces = append(s.Workspaces, policy.Workspace{
			Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly, Mode: w.WorkspaceMode(), Protected: w.Protected,
		})
	}
	for _, secret := range cfg.Secrets {
		s.Secrets = append(s.Secrets, policy.Secret(secret))
	}
	p := cfg.ProcessRunner
	// A configuration with mode none has been rejected before.
	mode, _ := egress.ParseMode(p.EgressEnforcementMode)
	s.ProcessRunner = policy.ProcessRunner{
		Enabled: p.Enabled, Tier: p.Tier, AllowedExecutables: p.AllowedExecutables, AllowInterpreters: p.AllowInterpreters, StrictExec: p.StrictExec,
		Toolchains: p.Toolchains,
		EgressMode: mode.String(), AllowedHosts: p.AllowedEgressHosts, AllowedDNSSuffixes: p.AllowedDNSSuffixes, DeniedHosts: p.DeniedEgressHosts,
		EgressBudget: policy.EgressBudget(p.EgressBudget),
		CPULimitMS:   p.CPUTimeLimitMS, MemoryLimit: p.MemoryLimitBytes, OutputLimit: p.MaxOutputBytes,
		MaxProcesses: p.MaxProcesses, MaxConcurrent: p.MaxConcurrent, Fallback: p.Fallback, RequiredLayers: p.RequiredLayers,
		Caches: p.Caches, DiskLimit: p.DiskLimitBytes, MaxFiles: p.MaxFiles, TmpLimit: p.TmpLimitBytes, CacheLimit: p.CacheLimitBytes,
		UIDBase: p.UIDBase, UIDCount: p.UIDCount,
	}
	if w := cfg.WASM; w.Enabled {
		guests := policy.WASMRuntime{
			AllowInlineModules: w.AllowInlineModules, FuelBudget: w.FuelBudget, FuelCeiling: w.FuelCeiling, MaxMemory: w.MaxMemoryBytes,
			MaxTableElements: w.MaxTableElements, MaxModule: w.MaxModuleBytes, MaxOutput: w.MaxOutputBytes, TimeLimitMS: w.TimeLimitMS, MaxConcurrent: w.MaxConcurrent,
		}
		if cfg.Skills.Enabled {
			guests.Skills = &policy.SkillSettings{AllowWildcards: cfg.Skills.AllowWildcards, MaxStorage: cfg.Skills.MaxStorageBytes}
		}
		s.WASM = guests.JSON()
	}
	for _, host := range p.Inspect {
		s.ProcessRunner.Inspect = append(s.ProcessRunner.Inspect, policy.Inspect(host))
	}
	return s
}
