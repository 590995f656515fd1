package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	policyfinding "palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/text"
	"palyra/internal/core/trusted"
	"palyra/internal/run/model/providers"
)

// settings examines what the configuration declares: workspaces, policies, models and secrets.
type settings struct{ Config }

func (s settings) workspaces(context.Context) finding {
	if err := s.Workspaces(); err != nil {
		return broken(err)
	}
	if len(s.Settings.Workspaces) == 0 {
		return doubtful("none is declared", "Add [[workspaces]] to palyra.toml: file tools and process.run have nothing to work in.")
	}
	var names []string
	for _, w := range s.Settings.Workspaces {
		if _, err := os.ReadDir(w.Path); err != nil {
			return broken(reason.Errorf(reason.ConfigInvalid, "workspace %s cannot be read: %w", w.Name, err).
				WithRemedy("Give the user that palyrad runs as read and write access to %s.", w.Path))
		}
		names = append(names, w.Name)
	}
	return fine(strings.Join(names, ", "))
}

// readPolicies reads the policy directory as palyrad does. It checks whether others could
// change the directory only if palyrad would run as this user.
func readPolicies(cfg *config.Config) (sources, tests []policy.Source, err error) {
	if _, err := os.Stat(cfg.StateDir); err != nil || trusted.Mine(cfg.StateDir) {
		return policyadmin.ReadTrusted(cfg)
	}
	return policyadmin.ReadDir(cfg.Policy.Dir)
}

func (s settings) policy(ctx context.Context) finding {
	sources, tests, err := readPolicies(s.Settings)
	if err != nil {
		return broken(err)
	}
	tools, err := s.Tools()
	if err != nil {
		return broken(err)
	}
	members, roles, err := s.members(ctx)
	if err != nil {
		return broken(err)
	}
	cfg := policyadmin.SetConfig(s.Settings, sources, tools, members, roles)
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
	detail := fmt.Sprintf("%s of %s in addition to the built-in policies", text.Plural(len(sources), "file"), cmp.Or(s.Settings.Policy.Dir, "policy.dir"))
	check := "Run `palyra policy check` and `palyra policy test`."
	switch {
	case len(faults) > 0:
		return finding{Failed, fmt.Sprintf("%s:%d: %s", faults[0].File, faults[0].Line, faults[0].Message), check}
	case s.Settings.AllowSensitiveTools:
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
func (s settings) members(ctx context.Context) (list []access.Member, roles []access.Role, err error) {
	if _, statErr := os.Stat(statedir.Store(s.Settings.StateDir)); statErr != nil {
		return nil, append(access.BuiltinRoles, s.Settings.Roles...), nil
	}
	db, err := s.OpenStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	registry, err := access.NewRegistry(ctx, db, s.Settings.Roles)
	if err != nil {
		return nil, nil, err
	}
	return registry.List(), registry.Roles(), nil
}

// models builds the providers as a start does, from key files and scripts. It calls neither a
// provider nor the vault, which palyrad queries for each turn.
func (s settings) models(context.Context) finding {
	if len(s.Settings.Models) == 0 {
		return skipped("none is configured; `palyra run` needs one")
	}
	var names []string
	for _, m := range s.Settings.Models {
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
func (s settings) secrets(context.Context) finding {
	if len(s.Settings.Secrets) == 0 {
		return skipped("none is configured")
	}
	var names []string
	for _, secret := range s.Settings.Secrets {
		value, err := secret.Value()
		clear(value)
		if err != nil {
			f := broken(err)
			f.detail = "secret " + secret.Name + ": " + f.detail
			return f
		}
		names = append(names, secret.Name)
	}
	return fine(strings.Join(names, ", "))
}
