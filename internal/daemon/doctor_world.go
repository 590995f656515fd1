package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"palyra/internal/access"
	"palyra/internal/builtin"
	"palyra/internal/config"
	"palyra/internal/policy"
	policyfinding "palyra/internal/policy/finding"
	"palyra/internal/policy/lint"
	"palyra/internal/policy/policytests"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
	"palyra/internal/tool"
	"palyra/internal/workspace"
)

func (p *patient) apiPort(ctx context.Context) finding {
	return p.port(ctx, p.cfg.Listen.API, "listen.api")
}

func (p *patient) metricsPort(ctx context.Context) finding {
	if p.cfg.Listen.Metrics == "" {
		return skipped("switched off")
	}
	return p.port(ctx, p.cfg.Listen.Metrics, "listen.metrics")
}

// port tries to listen. Beside a running daemon the port is taken, by it.
func (p *patient) port(ctx context.Context, address, key string) finding {
	if p.running {
		return skipped(address + "; the palyrad that runs holds it")
	}
	l, err := listen(ctx, address, key)
	if err != nil {
		return broken(err)
	}
	if err := l.Close(); err != nil {
		return broken(fmt.Errorf("closing %s: %w", address, err))
	}
	return fine(address + " is free")
}

func (p *patient) workspaces(context.Context) finding {
	if _, err := openWorkspaces(p.cfg); err != nil {
		return broken(err)
	}
	if len(p.cfg.Workspaces) == 0 {
		return doubtful("none is declared", "Add [[workspaces]] to palyra.toml: file tools and process.run have nothing to work in.")
	}
	var names []string
	for _, w := range p.cfg.Workspaces {
		if _, err := os.ReadDir(w.Path); err != nil {
			return broken(reason.Errorf(reason.ConfigInvalid, "workspace %s cannot be read: %w", w.Name, err).
				WithRemedy("Let the user that palyrad runs as read and write %s.", w.Path))
		}
		names = append(names, w.Name)
	}
	return fine(strings.Join(names, ", "))
}

func (p *patient) policy(ctx context.Context) finding {
	sources, tests, err := readPolicyDir(p.cfg.Policy.Dir)
	if err != nil {
		return broken(err)
	}
	tools, err := describedTools(p.cfg)
	if err != nil {
		return broken(err)
	}
	members, roles, err := p.members(ctx)
	if err != nil {
		return broken(err)
	}
	cfg := policyConfig(p.cfg, sources, tools, members, roles)
	findings, err := checked(ctx, cfg, tests)
	if err != nil {
		return broken(err)
	}
	var faults, warnings []policyfinding.Finding
	for _, f := range findings {
		switch {
		case f.Severity == policyfinding.SeverityError:
			faults = append(faults, f)
		case f.Code != policyfinding.CodeOpaque: // says what a tool's schema keeps from policy, which is no defect
			warnings = append(warnings, f)
		}
	}
	detail := fmt.Sprintf("%d files of policy.dir beside the built-in policies", len(sources))
	check := "Run `palyra policy check` and `palyra policy test`."
	switch {
	case len(faults) > 0:
		return finding{examFailed, fmt.Sprintf("%s:%d: %s", faults[0].File, faults[0].Line, faults[0].Message), check}
	case p.cfg.AllowSensitiveTools:
		return doubtful(detail+"; allow_sensitive_tools is true: sensitive tools run without asking anybody", "Set it to false, and permit what may run unattended tool by tool.")
	case len(warnings) > 0:
		return doubtful(fmt.Sprintf("%s; %d warnings, the first: %s", detail, len(warnings), warnings[0].Message), check)
	}
	return fine(detail)
}

// checked finds what keeps a set from loading, and what is odd about it. The
// tests are run on what would load, as at a start.
func checked(ctx context.Context, cfg policy.Config, tests []policy.Source) ([]policyfinding.Finding, error) {
	findings := lint.Check(cfg)
	isFault := func(f policyfinding.Finding) bool { return f.Severity == policyfinding.SeverityError }
	if len(tests) == 0 || slices.ContainsFunc(findings, isFault) {
		return findings, nil
	}
	report, err := policytests.Run(ctx, cfg, tests)
	return append(findings, report.Failures()...), err
}

// members are those of the store; a gateway that never started has none.
func (p *patient) members(ctx context.Context) (list []access.Member, roles []access.Role, err error) {
	path := storePath(p.cfg.StateDir)
	if _, statErr := os.Stat(path); statErr != nil {
		return nil, append(access.BuiltinRoles, p.cfg.Roles...), nil
	}
	db, err := sqlite.OpenReadOnly(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	registry, err := access.NewRegistry(ctx, db.Identity(), p.cfg.Roles)
	if err != nil {
		return nil, nil, err
	}
	return registry.List(), registry.Roles(), nil
}

// describedTools are the definitions of the daemon's own tools, which do not
// depend on whether they could run.
func describedTools(cfg *config.Config) ([]tool.Descriptor, error) {
	ws, err := openWorkspaces(cfg)
	if err != nil {
		ws, err = workspace.NewSet(nil) // is found by another exam
	}
	if err != nil {
		return nil, err
	}
	settings, err := builtinConfig(cfg, ws, box{})
	if err != nil {
		return nil, err
	}
	var list []tool.Descriptor
	for _, t := range builtin.New(settings) {
		list = append(list, t.Descriptor())
	}
	return list, nil
}

// without returns what is in all and not in some.
func without(all, some []string) []string {
	have := make(map[string]bool, len(some))
	for _, s := range some {
		have[s] = true
	}
	var rest []string
	for _, s := range all {
		if !have[s] {
			rest = append(rest, s)
		}
	}
	return rest
}

// models builds the providers as a start does, from key files and scripts;
// nobody is called.
func (p *patient) models(context.Context) finding {
	if len(p.cfg.Models) == 0 {
		return skipped("none is configured; `palyra run` needs one")
	}
	var names []string
	for _, m := range p.cfg.Models {
		if _, err := openModel(m); err != nil {
			f := broken(err)
			f.detail = "model " + m.Name + ": " + f.detail
			return f
		}
		names = append(names, m.Name+" ("+m.Provider+")")
	}
	return fine(strings.Join(names, ", "))
}

// secrets reads the files as a call would, and shows none of what they hold.
func (p *patient) secrets(context.Context) finding {
	if len(p.cfg.Secrets) == 0 {
		return skipped("none is configured")
	}
	var names []string
	for _, s := range p.cfg.Secrets {
		value, err := s.Value()
		clear(value)
		if err != nil {
			f := broken(err)
			f.detail = "secret " + s.Name + ": " + f.detail
			return f
		}
		names = append(names, s.Name)
	}
	return fine(strings.Join(names, ", "))
}
