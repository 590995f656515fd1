package daemon

import (
	"fmt"

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

// policyConfig is what a policy set is built from, as things are now.
func (g *gateway) policyConfig(sources []policy.Source) policy.Config {
	return policyConfig(g.cfg, sources, g.router.Descriptors(), g.registry.List(), g.registry.Roles())
}

func policyConfig(cfg *config.Config, sources []policy.Source, tools []tool.Descriptor, members []access.Member, roles []access.Role) policy.Config {
	names := make([]string, len(cfg.Workspaces))
	for i, w := range cfg.Workspaces {
		names[i] = w.Name
	}
	allowed := []string{}
	for _, d := range tools {
		if cfg.ToolAllowed(d.Name) {
			allowed = append(allowed, d.Name)
		}
	}
	p := cfg.ProcessRunner
	return policy.Config{
		Sources: sources, Tools: tools, Members: members, Roles: roles, Workspaces: names,
		Snapshot: policy.Snapshot{
			AllowedTools: allowed, AllowSensitiveTools: cfg.AllowSensitiveTools,
			MaxCallsPerRun: cfg.MaxCallsPerRun, ExecutionTimeoutMS: cfg.ExecutionTimeoutMS,
			ProcessRunner: policy.ProcessRunner{
				Enabled: p.Enabled, Tier: p.Tier, AllowedExecutables: p.AllowedExecutables, AllowInterpreters: p.AllowInterpreters,
				EgressMode: p.EgressEnforcementMode, AllowedHosts: p.AllowedEgressHosts, AllowedDNSSuffixes: p.AllowedDNSSuffixes,
				CPULimitMS: p.CPUTimeLimitMS, MemoryLimit: p.MemoryLimitBytes, OutputLimit: p.MaxOutputBytes,
			},
		},
	}
}

// builtinConfig gives the daemon's own tools their limits.
func builtinConfig(cfg *config.Config, ws *workspace.Set, runner sandbox.Runner) (builtin.Config, error) {
	allowed, err := egress.ParseRules(cfg.HTTP.AllowedHosts)
	if err != nil {
		return builtin.Config{}, fmt.Errorf("http.allowed_hosts: %w", err)
	}
	denied, err := egress.ParseRules(cfg.HTTP.DeniedHosts)
	if err != nil {
		return builtin.Config{}, fmt.Errorf("http.denied_hosts: %w", err)
	}
	mode, err := egress.ParseMode(cfg.ProcessRunner.EgressEnforcementMode)
	if err != nil {
		return builtin.Config{}, fmt.Errorf("process_runner.egress_enforcement_mode: %w", err)
	}
	p := cfg.ProcessRunner
	return builtin.Config{
		Workspaces: ws, Runner: runner, MaxTimeout: cfg.ExecutionTimeout(), Version: version.Get().Version,
		Process: builtin.ProcessPolicy{
			Enabled: p.Enabled, AllowedExecutables: p.AllowedExecutables, AllowInterpreters: p.AllowInterpreters,
			Egress: mode,
			Limits: sandbox.Limits{
				Wall: cfg.ExecutionTimeout(), CPU: p.CPUTimeLimit(), Memory: p.MemoryLimitBytes,
				Output: p.MaxOutputBytes, Processes: p.MaxProcesses,
			},
		},
		HTTP: builtin.HTTPPolicy{Allowed: allowed, Denied: denied, MaxBytes: cfg.HTTP.MaxBytes, Timeout: cfg.HTTP.Timeout()},
	}, nil
}
