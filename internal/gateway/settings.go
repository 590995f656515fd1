package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/limit"
	"palyra/internal/core/trusted"
	"palyra/internal/core/version"
	"palyra/internal/egress"
	"palyra/internal/exec/builtin"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/resource"
	"palyra/internal/surface/api"
	"palyra/internal/surface/authzen"
)

// rateLimits returns the rate limits of each class.
func rateLimits(cfg *config.Config) map[limit.Class]limit.Rates {
	limits := make(map[limit.Class]limit.Rates)
	for class, l := range map[limit.Class]config.RateLimit{
		api.LimitRead: cfg.RateLimits.Read, api.LimitMutate: cfg.RateLimits.Mutate,
		api.LimitDecide: cfg.RateLimits.Decide, api.LimitToolCall: cfg.RateLimits.ToolCall,
		api.LimitRun: cfg.RateLimits.Run, api.LimitSecret: cfg.RateLimits.Secret, api.LimitPairing: cfg.RateLimits.Pairing, api.LimitLogin: cfg.RateLimits.Login,
	} {
		factor := cfg.RateLimits.GlobalFactor
		limits[class] = limit.Rates{
			Each:   limit.Limit{PerSecond: l.PerSecond, Burst: l.Burst},
			Global: limit.Limit{PerSecond: l.PerSecond * float64(factor), Burst: l.Burst * factor},
		}
	}
	return limits
}

// loginConfig returns the login configuration of the file.
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

// builtinConfig returns the configuration of the daemon's own tools.
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
	process.Turns = limit.NewQueue(cmp.Or(cfg.ProcessRunner.MaxConcurrent, in.Status.AtOnce, builtin.DefaultConcurrent), cfg.ProcessRunner.MaxWaiting)
	process.Toolchains = func() []command.Toolchain { return in.toolchains.Now().Toolchains }
	process.Author = in.author.Now
	return builtin.Config{
		Workspaces: ws, Runner: in.runner(), Sandbox: in.Status, MaxTimeout: cfg.ExecutionTimeout(), Version: version.Get().Version,
		Process: process,
		HTTP:    builtin.HTTPPolicy{Allowed: allowed, Denied: denied, MaxBytes: cfg.HTTP.MaxBytes, Timeout: cfg.HTTP.Timeout(), Secrets: credentials},
	}, nil
}

// processPolicy returns the policy of process.run, without the caches.
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

// openIssuers creates the verifier of other issuers' access tokens. It contacts no issuer yet.
func openIssuers(_ context.Context, g *gateway, _ Options) error {
	c := resource.Config{Members: g.registry, Log: g.log}
	for n, o := range g.cfg.OAuthIssuers {
		i, err := issuer(o)
		if err != nil {
			return fmt.Errorf("oauth_issuers[%d]: %w", n, err)
		}
		if i.Rules.Deny, err = egress.ParseRules(g.cfg.HTTP.DeniedHosts); err != nil {
			return fmt.Errorf("http.denied_hosts: %w", err)
		}
		i.Rules.Gateway = g.own
		c.Issuers = append(c.Issuers, i)
	}
	var err error
	g.issuers, err = resource.New(c)
	return err
}

// issuer converts a configured issuer. Its own host and the host of its keys may be queried.
func issuer(o config.OAuthIssuer) (resource.Issuer, error) {
	i := resource.Issuer{
		Name: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms, JWKS: o.JWKSURI, SubjectClaim: o.SubjectClaim, GroupsClaim: o.GroupsClaim,
		TypedTokens: !o.AnyType, ScopesInToken: !o.ScopesOfMembers,
	}
	own, err := resource.Hosts(o.Issuer, o.JWKSURI)
	if err != nil {
		return i, err
	}
	more, err := egress.ParseRules(o.AllowedHosts)
	if err != nil {
		return i, err
	}
	i.Rules.Allow = slices.Concat(own, more)
	for _, m := range o.Members {
		as, err := access.ParsePrincipal(m.ActsAs)
		if err != nil {
			return i, err
		}
		mapping := resource.Mapping{Subject: m.Subject, Group: m.Group, ActsAs: as}
		for _, s := range m.Scopes {
			mapping.Scopes = append(mapping.Scopes, access.Permission(s))
		}
		i.Members = append(i.Members, mapping)
	}
	return i, nil
}

// openAuthZEN creates the handler of authorization requests from other gateways.
func openAuthZEN(_ context.Context, g *gateway, _ Options) error {
	subjects, err := evaluators(g.cfg.Evaluators)
	if err != nil {
		return err
	}
	g.authzen, err = authzen.New(authzen.Config{
		Pipeline: g.pipeline, Engine: g.engine, Members: g.registry, Journal: g.journal, Gateway: g.authority.TrustDomain(), Subjects: subjects,
		Caller: api.CallerOf, Origin: api.Origin, Count: api.CountAgain,
		Refuse: func(w http.ResponseWriter, r *http.Request, route string, err error) {
			api.WriteError(w, r, g.log, route, err)
		},
	})
	return err
}

// evaluators maps each evaluator to the members that it may ask about.
func evaluators(list []config.Evaluator) (map[access.Principal][]access.Principal, error) {
	subjects := make(map[access.Principal][]access.Principal)
	for n, e := range list {
		caller, err := access.ParsePrincipal(e.Caller)
		if err != nil {
			return nil, fmt.Errorf("evaluators[%d].caller: %w", n, err)
		}
		for _, s := range e.Subjects {
			p, err := access.ParsePrincipal(s)
			if err != nil {
				return nil, fmt.Errorf("evaluators[%d].subjects: %w", n, err)
			}
			subjects[caller] = append(subjects[caller], p)
		}
	}
	return subjects, nil
}

// callLimits returns the call timeouts of MCP clients, by their names.
func callLimits(cfg *config.Config) map[string]time.Duration {
	limits := make(map[string]time.Duration, len(cfg.MCPClients))
	for _, c := range cfg.MCPClients {
		limits[c.Name] = c.CallLimit
	}
	return limits
}

// ownConfiguration refuses a configuration file that others could change.
func ownConfiguration(cfg *config.Config) error {
	if _, err := os.Stat(cfg.Source); cfg.Source == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := trusted.Check(cfg.Source, cfg.WorkspacePaths()); err != nil {
		return fmt.Errorf("the configuration file: %w", err)
	}
	return nil
}
