package daemon

import (
	"cmp"
	"fmt"

	"palyra/internal/access"
	"palyra/internal/builtin"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/fairqueue"
	"palyra/internal/login"
	"palyra/internal/ratelimit"
	"palyra/internal/rpc"
	"palyra/internal/sandbox"
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
		rpc.LimitRun: cfg.RateLimits.Run, rpc.LimitSecret: cfg.RateLimits.Secret, rpc.LimitPairing: cfg.RateLimits.Pairing, rpc.LimitLogin: cfg.RateLimits.Login,
	} {
		factor := cfg.RateLimits.GlobalFactor
		limits[class] = ratelimit.Limits{
			Each:   ratelimit.Limit{PerSecond: l.PerSecond, Burst: l.Burst},
			Global: ratelimit.Limit{PerSecond: l.PerSecond * float64(factor), Burst: l.Burst * factor},
		}
	}
	return limits
}

// loginConfig is how people log in, as the file says it.
func loginConfig(cfg *config.Config) login.Config {
	o := cfg.OIDC
	c := login.Config{
		Issuer: o.Issuer, ClientID: o.ClientID, Scopes: o.Scopes, UsernameClaim: o.UsernameClaim, UsernameDomain: o.UsernameDomain,
		GroupsClaim: o.GroupsClaim, Algorithms: o.Algorithms, DeviceFlow: o.DeviceFlow, MaxAge: o.MaxAge, Session: o.Session,
	}
	if o.ClientSecretFile != "" {
		c.Secret = o.ClientSecret
	}
	for _, m := range o.Groups {
		mapping := login.Mapping{Group: m.Group}
		for _, r := range m.Roles {
			mapping.Roles = append(mapping.Roles, access.Role(r))
		}
		c.Groups = append(c.Groups, mapping)
	}
	return c
}

// builtinConfig gives the daemon's own tools their limits.
func builtinConfig(cfg *config.Config, ws *workspace.Set, in isolation) (builtin.Config, error) {
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
	process.OpenCaches, process.History = in.caches.Open, in.history
	process.Turns = fairqueue.New(cmp.Or(cfg.ProcessRunner.MaxConcurrent, in.Status.AtOnce, builtin.DefaultConcurrent), cfg.ProcessRunner.MaxWaiting)
	process.Toolchains = func() []sandbox.Toolchain { return in.toolchains.Now().Toolchains }
	process.Author = in.author.Now
	return builtin.Config{
		Workspaces: ws, Runner: in.runner(), Sandbox: in.Status, MaxTimeout: cfg.ExecutionTimeout(), Version: version.Get().Version,
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
		Egress: mode, Reach: allowed, Required: p.RequiredLayers, Workspaces: workspaces, Caches: p.Caches,
		Limits: sandbox.Limits{
			Wall: cfg.ExecutionTimeout(), CPU: p.CPUTimeLimit(), Memory: p.MemoryLimitBytes,
			Output: p.MaxOutputBytes, Processes: p.MaxProcesses,
			Tmp: p.TmpLimitBytes, Disk: p.DiskLimitBytes, Files: p.MaxFiles,
		},
	}, nil
}
