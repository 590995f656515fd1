package policyadmin

import (
	"context"
	"log/slog"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// Loader loads the policy directory: at the start, on request, and when it changes. A change
// that needs a second person is recorded as a proposal and not loaded.
type Loader struct {
	active   *Active
	ceilings *CeilingAdmin
	settings *config.Config
	guard    change.Guard
	needsTwo func() bool
}

// Reload reads the directory again for an operator, and ends an activation.
func (l *Loader) Reload(ctx context.Context, by access.Caller) (Reloaded, error) {
	if err := l.guard.Check(ctx, change.ReloadPolicy); err != nil {
		return Reloaded{}, err
	}
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	return l.loadDirectory(ctx, by.Principal.String())
}

// loadDirectory puts the directory in force. The caller holds l.active.mu.
func (l *Loader) loadDirectory(ctx context.Context, actor string) (Reloaded, error) {
	c, err := l.candidate(ctx, actor)
	if err != nil {
		return Reloaded{}, err
	}
	return l.active.apply(ctx, actor, c)
}

// candidate reads the directory for a set that is to come into force. A failure is journaled.
// The caller holds l.active.mu.
func (l *Loader) candidate(ctx context.Context, actor string) (candidate, error) {
	sources, tests, err := l.own()
	if err != nil {
		return candidate{}, l.active.reject(ctx, actor, err)
	}
	return candidate{sources: sources, tests: tests}, nil
}

// own reads the policy directory for a set that is to come into force. A directory that never
// existed has no policies. A directory that disappeared is an error, because moving it must not end
// its rules. The caller holds l.active.mu.
func (l *Loader) own() (sources, tests []policy.Source, err error) {
	dir := l.settings.Policy.Dir
	if dir != "" && !isThere(dir) && len(l.active.running.sources) > 0 {
		return nil, nil, reason.Errorf(reason.PolicyInvalid, "the policy directory %s has disappeared; the previous policies stay in force", dir).
			WithRemedy("Create it again, empty if only the built-in policies should apply, then run `palyra policy reload`.")
	}
	return ReadTrusted(l.settings)
}

// signalled loads the directory on request of the host.
func (l *Loader) signalled(ctx context.Context) error {
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	return l.loadUnproposed(ctx)
}

// directoryChanged loads the directory, unless a version is activated: only the operator's
// reload ends an activation.
func (l *Loader) directoryChanged(ctx context.Context) error {
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	if !l.active.running.activated {
		return l.loadUnproposed(ctx)
	}
	l.active.ignored = true
	l.active.log.WarnContext(ctx, "the policy directory changed and does not count: a version is activated; `palyra policy reload` returns to the directory")
	return nil
}

// loadUnproposed loads the directory, or records it as a proposal if it needs a second person.
// The caller holds l.active.mu.
func (l *Loader) loadUnproposed(ctx context.Context) error {
	if l.takesTwo() {
		return l.directoryProposed(ctx)
	}
	_, err := l.loadDirectory(ctx, journal.Daemon)
	return err
}

// policyProposed is the payload of event.PolicyProposed.
type policyProposed struct {
	Version    string `json:"policy_version"`
	WasVersion string `json:"was_version"`
	Policies   int    `json:"policies"`
}

// takesTwo reports whether a change of the set in force needs a second person, so that a change
// of the directory alone has no effect.
func (l *Loader) takesTwo() bool { return l.needsTwo != nil && l.needsTwo() }

// directoryProposed records that the directory differs from the set in force, which stays in
// force. Each version is journaled once. The caller holds l.active.mu.
func (l *Loader) directoryProposed(ctx context.Context) error {
	c, err := l.candidate(ctx, journal.Daemon)
	if err != nil {
		return err
	}
	if slices.Equal(c.sources, l.active.running.sources) && !l.active.running.activated {
		l.active.proposed = ""
		return nil
	}
	proposal, err := l.active.propose(ctx, journal.Daemon, c)
	if err != nil || proposal.Version == l.active.proposed {
		return err
	}
	if proposal.Version == proposal.Was && !l.active.running.activated {
		l.active.running, l.active.proposed = c, "" // only comments or file names differ, which need no second person
		return nil
	}
	l.active.proposed = proposal.Version
	l.active.log.WarnContext(ctx, "the policy directory changed, and a second person has to approve that: `palyra policy reload` asks for it",
		slog.String("version", proposal.Version))
	return l.active.journal.Record(context.WithoutCancel(ctx), event.PolicyProposed, journal.Daemon, "", policyProposed{
		Version: proposal.Version, WasVersion: proposal.Was, Policies: len(c.sources),
	})
}

// Directory is the state of the policy directory in comparison with the set in force.
type Directory struct {
	// Path is policy.dir; "" if it is not configured.
	Path string
	// Present is true if it exists.
	Present bool
	// Files is the current number of policy files in it.
	Files int
	// Policies is the number of policies in force in addition to the built-in ones.
	Policies int
	// InForce is true if its files are in force.
	InForce bool
	// Problem is the reason why they are not in force, with the next step.
	Problem string
}

// Directory compares the current policy directory with the set in force.
func (l *Loader) Directory() Directory {
	d := Directory{Path: l.settings.Policy.Dir}
	sources, _, err := ReadTrusted(l.settings)
	d.Present, d.Files = d.Path != "" && isThere(d.Path), countFiles(d.Path)
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	for _, one := range l.active.engine.Current().View().Policies() {
		if !one.Builtin {
			d.Policies++
		}
	}
	d.Problem = l.outOfForce(d, sources, err)
	d.InForce = d.Problem == ""
	return d
}

// outOfForce returns the reason why the files of the directory are not in force, or "". The
// caller holds l.active.mu.
func (l *Loader) outOfForce(d Directory, sources []policy.Source, err error) string {
	switch {
	case d.Path == "":
		return "policy.dir is empty: only the built-in policies are in force"
	case l.active.running.activated:
		return "an activated version is in force instead; run `palyra policy reload` to return to the directory"
	case err != nil:
		return err.Error() + ". " + reason.Known(err, reason.PolicyInvalid).NextStep()
	case !d.Present && len(l.active.running.sources) > 0:
		return "it has disappeared, and the previous policies stay in force; create it again, empty if only the built-in policies should apply"
	case !d.Present:
		return "it does not exist; create it with `palyra policy init --profile laptop`"
	case !slices.Equal(sources, l.active.running.sources) && l.takesTwo():
		return "it is a proposal: its files are not in force and need a second person; request the approval with `palyra policy reload`"
	case !slices.Equal(sources, l.active.running.sources):
		return "its files are not in force; run `palyra policy reload` to see the reason"
	}
	return ""
}

// Notices are remarks for the operator about the state in force, such as an activation that has
// been followed by changes of the directory.
func (l *Loader) Notices() []string {
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	if l.active.proposed != "" {
		return []string{"the policy directory changed and is a proposal, not in force: `palyra policy reload` asks a second person for it"}
	}
	if !l.active.running.activated {
		return nil
	}
	text := "policy version " + l.active.engine.Current().Version() + " is activated, and the policy directory does not count"
	if l.active.ignored {
		text = "the policy directory changed and does not count: policy version " + l.active.engine.Current().Version() + " is activated"
	}
	return []string{text + "; `palyra policy reload` returns to the directory"}
}
