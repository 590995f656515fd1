package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	policyfinding "palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/text"
	"palyra/internal/core/trusted"
	"palyra/internal/run/model/providers"
	"palyra/internal/surface/console"
	"palyra/internal/surface/console/certificate"
)

func (p *subject) apiPort(ctx context.Context) finding {
	return p.port(ctx, p.Settings.Listen.API, "listen.api")
}

func (p *subject) metricsPort(ctx context.Context) finding {
	if p.Settings.Listen.Metrics == "" {
		return skipped("switched off")
	}
	return p.port(ctx, p.Settings.Listen.Metrics, "listen.metrics")
}

func (p *subject) agentsPort(ctx context.Context) finding {
	if p.Settings.Listen.Agents == "" {
		return skipped("switched off")
	}
	return p.port(ctx, p.Settings.Listen.Agents, "listen.agents")
}

func (p *subject) consolePort(ctx context.Context) finding {
	if p.Settings.Listen.Console == "" {
		return skipped("switched off")
	}
	return p.port(ctx, p.Settings.Listen.Console, "listen.console")
}

// consoleOrigin reports the console's address for browsers, and whether that changed: passkeys
// belong to its name.
func (p *subject) consoleOrigin(ctx context.Context) finding {
	if p.Settings.Listen.Console == "" {
		return skipped("switched off")
	}
	if c := p.Settings.Console; c.CertificateFile != "" {
		if _, err := certificate.Files(c.CertificateFile, c.KeyFile, nil); err != nil {
			return broken(err)
		}
	}
	kept, err := console.ReadKept(statedir.Console(p.Settings.StateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return skipped("palyrad has not served the console yet")
	}
	if err != nil {
		return broken(err)
	}
	was, err := console.ParseOrigin(kept.Origin)
	if err != nil {
		return broken(err)
	}
	next := was
	if p.Settings.Console.Origin != "" {
		if next, err = console.ParseOrigin(p.Settings.Console.Origin); err != nil {
			return broken(err)
		}
	} else if was.Scheme == "https" || was.Name() != kept.Name+".localhost" {
		if next, err = console.ParseOrigin("http://" + kept.Name + ".localhost"); err != nil {
			return broken(err)
		}
	}
	if next.Name() != was.Name() {
		return doubtful("with the next start the console is at "+next.Name()+" in place of "+was.Name()+": "+p.lostAt(ctx, next.Name()), "Set console.origin back to "+kept.Origin+", or enroll passkeys again.")
	}
	if before, err := console.ParseOrigin(kept.Was); err == nil && before.Name() != was.Name() {
		return doubtful(kept.Origin+"; it was at "+kept.Was+" before: "+p.lostAt(ctx, was.Name()), "Set console.origin back to "+kept.Was+", or enroll passkeys again.")
	}
	return fine(kept.Origin)
}

// mostNamed is how many lost passkeys are named.
const mostNamed = 8

// lostAt names the passkeys that no browser offers to a console of that name.
func (p *subject) lostAt(ctx context.Context, name string) string {
	all, err := p.storedPasskeys(ctx)
	if err != nil {
		return "passkeys that were enrolled there are lost"
	}
	var lost []string
	for _, k := range all {
		if k.LostAt(name) {
			lost = append(lost, fmt.Sprintf("%q of %s", k.Name, k.Member))
		}
	}
	switch n := len(lost); {
	case n == 0:
		return "no passkey that counts is lost by it"
	case n > mostNamed:
		return fmt.Sprintf("passkeys that were enrolled there are lost: %s, and %d more", strings.Join(lost[:mostNamed], ", "), n-mostNamed)
	default:
		return "passkeys that were enrolled there are lost: " + strings.Join(lost, ", ")
	}
}

// port tests whether the port is free. A running daemon occupies it.
func (p *subject) port(ctx context.Context, address, key string) finding {
	if p.running {
		return skipped(address + "; the palyrad that runs holds it")
	}
	l, err := p.Listen(ctx, address, key)
	if err != nil {
		return broken(err)
	}
	if err := l.Close(); err != nil {
		return broken(fmt.Errorf("closing %s: %w", address, err))
	}
	return fine(address + " is free")
}

func (p *subject) workspaces(context.Context) finding {
	if err := p.Workspaces(); err != nil {
		return broken(err)
	}
	if len(p.Settings.Workspaces) == 0 {
		return doubtful("none is declared", "Add [[workspaces]] to palyra.toml: file tools and process.run have nothing to work in.")
	}
	var names []string
	for _, w := range p.Settings.Workspaces {
		if _, err := os.ReadDir(w.Path); err != nil {
			return broken(reason.Errorf(reason.ConfigInvalid, "workspace %s cannot be read: %w", w.Name, err).
				WithRemedy("Give the user that palyrad runs as read and write access to %s.", w.Path))
		}
		names = append(names, w.Name)
	}
	return fine(strings.Join(names, ", "))
}

// policies reads the policy directory as palyrad does. It checks whether others could change the
// directory only if palyrad would run as this user.
func (p *subject) policies() (sources, tests []policy.Source, err error) {
	if _, err := os.Stat(p.Settings.StateDir); err != nil || trusted.Mine(p.Settings.StateDir) {
		return policyadmin.ReadTrusted(p.Settings)
	}
	return policyadmin.ReadDir(p.Settings.Policy.Dir)
}

func (p *subject) policy(ctx context.Context) finding {
	sources, tests, err := p.policies()
	if err != nil {
		return broken(err)
	}
	tools, err := p.Tools()
	if err != nil {
		return broken(err)
	}
	members, roles, err := p.members(ctx)
	if err != nil {
		return broken(err)
	}
	cfg := policyadmin.SetConfig(p.Settings, sources, tools, members, roles)
	findings, err := checked(ctx, cfg, tests)
	if err != nil {
		return broken(err)
	}
	var faults, warnings []policyfinding.Finding
	for _, f := range findings {
		switch {
		case f.Severity == policyfinding.SeverityError:
			faults = append(faults, f)
		case f.Code != policyfinding.CodeOpaque: // reports the parts of a tool's schema that policy cannot see, which is not a defect
			warnings = append(warnings, f)
		}
	}
	detail := fmt.Sprintf("%s of %s in addition to the built-in policies", text.Plural(len(sources), "file"), cmp.Or(p.Settings.Policy.Dir, "policy.dir"))
	check := "Run `palyra policy check` and `palyra policy test`."
	switch {
	case len(faults) > 0:
		return finding{Failed, fmt.Sprintf("%s:%d: %s", faults[0].File, faults[0].Line, faults[0].Message), check}
	case p.Settings.AllowSensitiveTools:
		return doubtful(detail+"; allow_sensitive_tools is true: sensitive tools run without asking anybody", "Set it to false, and permit what may run unattended tool by tool.")
	case len(warnings) > 0:
		return doubtful(fmt.Sprintf("%s; %s, the first: %s", detail, text.Plural(len(warnings), "warning"), warnings[0].Message), check)
	}
	return fine(detail)
}

// checked returns the errors that prevent a set from loading, and its warnings. The tests run on
// the set that would load, as at a start.
func checked(ctx context.Context, cfg policy.Config, tests []policy.Source) ([]policyfinding.Finding, error) {
	findings := lint.Check(cfg)
	isFault := func(f policyfinding.Finding) bool { return f.Severity == policyfinding.SeverityError }
	if len(tests) == 0 || slices.ContainsFunc(findings, isFault) {
		return findings, nil
	}
	report, err := policytests.Run(ctx, cfg, tests)
	return append(findings, report.Failures()...), err
}

// members returns the members in the store; a gateway that never started has none.
func (p *subject) members(ctx context.Context) (list []access.Member, roles []access.Role, err error) {
	if _, statErr := os.Stat(statedir.Store(p.Settings.StateDir)); statErr != nil {
		return nil, append(access.BuiltinRoles, p.Settings.Roles...), nil
	}
	db, err := p.OpenStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	registry, err := access.NewRegistry(ctx, db, p.Settings.Roles)
	if err != nil {
		return nil, nil, err
	}
	return registry.List(), registry.Roles(), nil
}

// models builds the providers as a start does, from key files and scripts. It calls neither a
// provider nor the vault, which palyrad queries for each turn.
func (p *subject) models(context.Context) finding {
	if len(p.Settings.Models) == 0 {
		return skipped("none is configured; `palyra run` needs one")
	}
	var names []string
	for _, m := range p.Settings.Models {
		if _, err := providers.Open(m, nil); err != nil {
			f := broken(err)
			f.detail = "model " + m.Name + ": " + f.detail
			return f
		}
		names = append(names, m.Name+" ("+m.Provider+")")
	}
	return fine(strings.Join(names, ", "))
}

// secrets reads the files as a call would, and prints none of their content.
func (p *subject) secrets(context.Context) finding {
	if len(p.Settings.Secrets) == 0 {
		return skipped("none is configured")
	}
	var names []string
	for _, s := range p.Settings.Secrets {
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
