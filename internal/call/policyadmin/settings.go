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
		ProcessRunner: policy.ProcessRunner{ProcessRunner: cfg.ProcessRunner}, HTTP: cfg.HTTP,
		Secrets: append([]config.Secret(nil), cfg.Secrets...), // an empty list is recorded like an absent one
	}
	s.ProcessRunner.Inspect = append([]config.Inspect(nil), cfg.ProcessRunner.Inspect...)
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
		w.Mode = w.WorkspaceMode()
		s.Workspaces = append(s.Workspaces, w)
	}
	// A configuration with an unknown mode has been rejected before.
	mode, _ := egress.ParseMode(cfg.ProcessRunner.EgressEnforcementMode)
	s.ProcessRunner.EgressEnforcementMode = mode.String()
	if cfg.WASM.Enabled {
		s.WASM = &policy.WASMRuntime{WASMRuntime: cfg.WASM}
		if cfg.Skills.Enabled {
			s.WASM.Skills = &cfg.Skills
		}
	}
	return s
}
