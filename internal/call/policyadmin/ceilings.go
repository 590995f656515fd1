package policyadmin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Ceiling states whether policies may admit a principal or a messaging channel at all. Entries
// that the configuration omits stay excluded.
type Ceiling struct {
	// Name is "user:bob", "agent:helper" or "channel:ops".
	Name    string
	Allowed bool
	// By is zero for an entry of the configuration.
	By     access.Principal
	At     time.Time
	Reason string
}

// channelPrefix is the prefix of the name of a channel's ceiling.
const channelPrefix = "channel:"

// maxCeilings bounds the ceilings that commands may set.
const maxCeilings = 10_000

type ceilingSet struct {
	Name    string `json:"name"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

// CeilingAdmin lists the ceilings and sets them by command. A change is in force when
// SetCeiling returns.
type CeilingAdmin struct {
	active   *Active
	settings *config.Config
	store    CeilingStore
	members  Members
	guard    change.Guard
	cut      func(access.Principal, *reason.Error)
}

// Ceilings returns the ceilings of the configuration, followed by those set by commands.
func (a *CeilingAdmin) Ceilings() []Ceiling {
	cfg := a.settings
	var list []Ceiling
	for _, name := range cfg.AllowedPrincipals {
		list = append(list, Ceiling{Name: name, Allowed: true})
	}
	for _, name := range cfg.AllowedChannels {
		list = append(list, Ceiling{Name: channelPrefix + name, Allowed: true})
	}
	a.active.mu.Lock()
	defer a.active.mu.Unlock()
	return append(list, a.active.ceilings...)
}

// SetCeiling admits or excludes a principal or a channel, independent of policies. It is in
// force when it returns, and after a restart. It does not admit entries that the configuration
// omits, and does not exclude approvers: disable those as members, which reports the
// consequences.
func (a *CeilingAdmin) SetCeiling(ctx context.Context, by access.Caller, c Ceiling) (Ceiling, error) {
	if err := a.check(by, c); err != nil {
		return Ceiling{}, fmt.Errorf("setting a ceiling: %w", err)
	}
	if c.Allowed {
		if err := a.guard.Check(ctx, change.LetIn); err != nil {
			return Ceiling{}, err
		}
	}
	a.active.mu.Lock()
	defer a.active.mu.Unlock()
	i, found := indexOf(a.active.ceilings, c.Name)
	switch {
	case found && a.active.ceilings[i].Allowed == c.Allowed:
		return a.active.ceilings[i], nil
	case !found && len(a.active.ceilings) >= maxCeilings:
		return Ceiling{}, reason.Errorf(reason.QuotaExceeded, "the maximum of %d ceilings is reached", maxCeilings).
			WithRemedy("List channels in allowed_channels of palyra.toml.")
	}
	c.By = by.Principal
	e, err := event.DraftOf(event.CeilingSet, by.Principal.String(), c.Name, ceilingSet{Name: c.Name, Allowed: c.Allowed, Reason: c.Reason})
	if err == nil {
		e, err = e.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return Ceiling{}, err
	}
	if c, err = a.store.PutCeiling(context.WithoutCancel(ctx), c, e); err != nil {
		return Ceiling{}, fmt.Errorf("setting a ceiling: %w", err)
	}
	a.active.ceilings = slices.Clone(a.active.ceilings)
	if found {
		a.active.ceilings[i] = c
	} else {
		a.active.ceilings = slices.Insert(a.active.ceilings, i, c)
	}
	_, err = a.active.reapply(context.WithoutCancel(ctx), by.Principal.String())
	if who, of := principalOf(c.Name); of && !c.Allowed && a.cut != nil {
		a.cut(who, reason.Errorf(reason.Unauthenticated, "%s is excluded by a ceiling", who))
	}
	return c, err
}

// CheckCeiling returns the error that SetCeiling would return, and whether it would change the
// ceilings.
func (a *CeilingAdmin) CheckCeiling(by access.Caller, c Ceiling) (changes bool, err error) {
	if err := a.check(by, c); err != nil {
		return false, err
	}
	a.active.mu.Lock()
	defer a.active.mu.Unlock()
	i, found := indexOf(a.active.ceilings, c.Name)
	return !found || a.active.ceilings[i].Allowed != c.Allowed, nil
}

// indexOf returns the index of a ceiling in a list ordered by name, or its insertion index.
func indexOf(list []Ceiling, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(have Ceiling, name string) int { return cmp.Compare(have.Name, name) })
}

func (a *CeilingAdmin) check(by access.Caller, c Ceiling) error {
	if channel, is := strings.CutPrefix(c.Name, channelPrefix); is {
		if !config.IsChannel(channel) {
			return reason.Errorf(reason.InvalidInput, "%q is not a valid channel: 1 to 128 letters, digits and . _ : # @ / -", channel)
		}
		if allowed := a.settings.AllowedChannels; c.Allowed && len(allowed) > 0 && !slices.Contains(allowed, channel) {
			return notByCommand(channel, "allowed_channels")
		}
		return nil
	}
	who, is := principalOf(c.Name)
	if !is {
		return reason.Errorf(reason.InvalidInput, "%q has no ceiling: want user:NAME, agent:NAME or channel:NAME", c.Name)
	}
	i := slices.IndexFunc(a.members.List(), func(m access.Member) bool { return m.Principal == who && !m.Removed() })
	switch {
	case i < 0:
		return reason.Errorf(reason.NotFound, "member %s does not exist", who).WithRemedy("List members with `palyra members list`.")
	case c.Allowed && !listed(a.settings, who):
		return notByCommand(who.String(), "allowed_principals")
	case !c.Allowed && who == by.Principal:
		return reason.Errorf(reason.InvalidInput, "a caller cannot exclude themselves").WithRemedy("Ask another owner or admin.")
	case !c.Allowed && slices.ContainsFunc(a.members.List()[i].Roles, access.Role.Decides):
		return reason.Errorf(reason.InvalidInput, "%s answers approvals and must be disabled instead", who).
			WithRemedy("Use `palyra members disable %s`, which reports the consequences.", who)
	}
	return nil
}

func notByCommand(name, key string) error {
	return reason.Errorf(reason.PermissionDenied, "the configuration excludes %s, which a command cannot override", name).
		WithRemedy("Add it to %s of palyra.toml on the gateway's host, and restart palyrad.", key)
}

// principalOf returns the user or agent of a ceiling's name.
func principalOf(name string) (access.Principal, bool) {
	p, err := access.ParsePrincipal(name)
	return p, err == nil && (p.Kind == access.KindUser || p.Kind == access.KindAgent)
}

// listed reports whether the configuration admits a principal.
func listed(cfg *config.Config, who access.Principal) bool {
	return slices.Contains(cfg.AllowedPrincipals, "*") || slices.Contains(cfg.AllowedPrincipals, who.String())
}

// load reads the ceilings set by commands.
func (a *CeilingAdmin) load(ctx context.Context) error {
	list, err := a.store.Ceilings(ctx)
	if err != nil {
		return fmt.Errorf("loading ceilings: %w", err)
	}
	a.active.mu.Lock()
	defer a.active.mu.Unlock()
	a.active.ceilings = list
	return nil
}

// Lower applies the ceilings set by commands to the ceilings of the configuration.
func Lower(s *policy.Snapshot, ceilings []Ceiling) {
	fixed := len(s.AllowedChannels) > 0
	for _, c := range ceilings {
		channel, is := strings.CutPrefix(c.Name, channelPrefix)
		who, ok := principalOf(c.Name)
		switch {
		case is && !c.Allowed:
			s.AllowedChannels = slices.DeleteFunc(slices.Clone(s.AllowedChannels), func(name string) bool { return name == channel })
		case is && !fixed:
			s.AllowedChannels = append(s.AllowedChannels, channel)
		case ok && !c.Allowed:
			s.ForbiddenPrincipals = append(s.ForbiddenPrincipals, who)
		}
	}
}
