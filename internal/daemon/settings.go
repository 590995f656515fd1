package daemon

import (
	"fmt"
	"slices"

	"palyra/internal/access"
	"palyra/internal/builtin"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/policy"
	"palyra/internal/ratelimit"
	"palyra/internal/rpc"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/version"
	"palyra/internal/workspace"
	"palyra/internal/workspace/overlay"
)

// rateLimits gives each class its buckets.
func rateLimits(cfg *config.Config) map[ratelimit.Class]ratelimit.Limits {
	limits := make(map[ratelimit.Class]ratelimit.Limits)
	for class, l := range map[ratelimit.Class]config.RateLimit{
		rpc.LimitRead: cfg.RateLimits.Read, rpc.LimitMutate: cfg.RateLimits.Mutate,
		rpc.LimitDecide: cfg.RateLimits.Decide, rpc.LimitToolCall: cfg.RateLimits.ToolCall,
	} {
		factor := cfg.RateLimits.GlobalFactor
		limits[class] = ratelimit.Limits{
			Each:   ratelimit.Limit{PerSecond: l.PerSecond, Burst: l.Burst},
			Global: ratelimit.Limit{PerSecond: l.PerSecond * float64(factor), Burst: l.Burst * factor},
		}
	}
	return limits
}

// policyConfig is what a policy set is built from, as things are now. Tools
// that are suspended are in the schema and not allowed.
func (g *gateway) policyConfig(sources []policy.Source, tools []tool.Descriptor, suspended map[string]error) policy.Config {
	c := policyConfig(g.cfg, sources, tools, g.registry.List(), g.registry.Roles())
	c.Snapshot.AllowedTools = slices.DeleteFunc(c.Snapshot.AllowedTools, func(name string) bool { return suspended[name] != nil })
	return c
}

func policyConfig(cfg *config.Config, sources []policy.Source, tools []tool.Descriptor, members []access.Member, roles []access.Role) policy.Config {
	names := make([]string, len(cfg.Workspaces))
	for i, w := range cfg.Workspaces {
		names[i] = w.Name
	}
	return policy.Config{
		Sources: sources, Tools: tools, Members: members, Roles: roles, Workspaces: names, Snapshot: snapshot(cfg, tools),
		// What this version can produce: a rule that wants more is said to be
		// unattainable instead of being waited for.
		Surfaces: []access.Surface{access.SurfaceCLI, access.SurfaceGRPC, access.SurfaceStream}, NoPresence: true,
	}
}

// snapshot is the settings behind a snapshot digest: everything that bounds
// what a call may do.
func snapshot(cfg *config.Config, tools []tool.Descriptor) policy.Snapshot {
	s := policy.Snapshot{
		AllowedTools: []string{}, AllowSensitiveTools: cfg.AllowSensitiveTools,
		MaxCallsPerRun: cfg.MaxCallsPerRun, MaxCallsPerSession: cfg.MaxCallsPerSession, SessionIdleMS: cfg.Sessions.Idle.Milliseconds(), ExecutionTimeoutMS: cfg.ExecutionTimeoutMS,
		HTTP: policy.HTTPClient{
			AllowedHosts: cfg.HTTP.AllowedHosts, DeniedHosts: cfg.HTTP.DeniedHosts,
			MaxBytes: cfg.HTTP.MaxBytes, TimeoutMS: cfg.HTTP.TimeoutMS,
		},
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
	s.Secrets = secretSettings(cfg.Secrets)
	p := cfg.ProcessRunner
	// processPolicy refuses what is no mode.
	mode, _ := egress.ParseMode(p.EgressEnforcementMode)
	s.ProcessRunner = policy.ProcessRunner{
		Enabled: p.Enabled, Tier: p.Tier, AllowedExecutables: p.AllowedExecutables, AllowInterpreters: p.AllowInterpreters, StrictExec: p.StrictExec,
		EgressMode: mode.String(), AllowedHosts: p.AllowedEgressHosts, AllowedDNSSuffixes: p.AllowedDNSSuffixes, DeniedHosts: p.DeniedEgressHosts,
		EgressBudget: policy.EgressBudget(p.EgressBudget), Inspect: inspected(p.Inspect),
		CPULimitMS: p.CPUTimeLimitMS, MemoryLimit: p.MemoryLimitBytes, OutputLimit: p.MaxOutputBytes,
		MaxProcesses: p.MaxProcesses, MaxConcurrent: p.MaxConcurrent, Fallback: p.Fallback, RequiredLayers: p.RequiredLayers,
		Caches: p.Caches, DiskLimit: p.DiskLimitBytes, MaxFiles: p.MaxFiles, TmpLimit: p.TmpLimitBytes, CacheLimit: p.CacheLimitBytes,
		UIDBase: p.UIDBase, UIDCount: p.UIDCount,
	}
	return s
}

// builtinConfig gives the daemon's own tools their limits.
func builtinConfig(cfg *config.Config, ws *workspace.Set, box box) (builtin.Config, error) {
	allowed, err := egress.ParseRules(cfg.HTTP.AllowedHosts)
	if err != nil {
		return builtin.Config{}, fmt.Errorf("http.allowed_hosts: %w", err)
	}
	denied, err := egress.ParseRules(cfg.HTTP.DeniedHosts)
	if err != nil {
		return builtin.Config{}, fmt.Errorf("http.denied_hosts: %w", err)
	}
	process, err := processPolicy(cfg)
	if err != nil {
		return builtin.Config{}, err
	}
	credentials, err := secrets(cfg)
	if err != nil {
		return builtin.Config{}, err
	}
	process.OpenCaches, process.History = box.caches.open, box.history
	return builtin.Config{
		Workspaces: ws, Runner: box.runner(), Sandbox: box.status, MaxTimeout: cfg.ExecutionTimeout(), Version: version.Get().Version,
		Process: process,
		HTTP:    builtin.HTTPPolicy{Allowed: allowed, Denied: denied, MaxBytes: cfg.HTTP.MaxBytes, Timeout: cfg.HTTP.Timeout(), Secrets: credentials},
	}, nil
}

// processPolicy is what process.run is allowed, but for the caches.
func processPolicy(cfg *config.Config) (builtin.ProcessPolicy, error) {
	p := cfg.ProcessRunner
	mode, err := egress.ParseMode(p.EgressEnforcementMode)
	if err != nil {
		return builtin.ProcessPolicy{}, fmt.Errorf("process_runner.egress_enforcement_mode: %w", err)
	}
	allowed, err := reach(cfg)
	if err != nil {
		return builtin.ProcessPolicy{}, err
	}
	workspaces := make(map[string]builtin.WorkspacePolicy, len(cfg.Workspaces))
	for _, w := range cfg.Workspaces {
		for _, pattern := range w.Protected {
			if err := overlay.CheckPattern(pattern); err != nil {
				return builtin.ProcessPolicy{}, fmt.Errorf("workspaces: protected of %s: %w", w.Name, err)
			}
		}
		workspaces[w.Name] = builtin.WorkspacePolicy{Direct: w.WorkspaceMode() == config.ModeDirect, Protected: w.Protected}
	}
	return builtin.ProcessPolicy{
		Enabled: p.Enabled, AllowedExecutables: p.AllowedExecutables, AllowInterpreters: p.AllowInterpreters,
		Egress: mode, Reach: allowed, Required: p.RequiredLayers, MaxConcurrent: p.MaxConcurrent, Workspaces: workspaces, Caches: p.Caches,
		Limits: sandbox.Limits{
			Wall: cfg.ExecutionTimeout(), CPU: p.CPUTimeLimit(), Memory: p.MemoryLimitBytes,
			Output: p.MaxOutputBytes, Processes: p.MaxProcesses,
			Tmp: p.TmpLimitBytes, Disk: p.DiskLimitBytes, Files: p.MaxFiles,
		},
	}, nil
}
