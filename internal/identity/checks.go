package identity

import (
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// findMember returns the member with this name. It refuses a member that may not act.
func findMember(registry *access.Registry, name string) (access.Member, error) {
	m, known, err := memberNamed(registry, name)
	if err != nil {
		return access.Member{}, err
	}
	if !known {
		return access.Member{}, reason.Errorf(reason.NotFound, "member %s not found", name).
			WithRemedy("See `palyra members list`; `palyrad operator add NAME --role ROLE` adds one.")
	}
	if _, active := registry.Active(m.Principal); !active && !waits(registry, m.Principal) {
		return access.Member{}, reason.Errorf(reason.InvalidInput, "%s may not act: it or its owner is disabled or was removed", m.Principal)
	}
	return m, nil
}

// memberNamed returns the member with a name, regardless of its permissions.
func memberNamed(registry *access.Registry, name string) (m access.Member, known bool, err error) {
	meant := []access.Principal{access.User(name), access.Agent(name)}
	if strings.Contains(name, ":") {
		p, err := access.ParsePrincipal(name)
		if err != nil {
			return access.Member{}, false, reason.Errorf(reason.InvalidInput, "member: %w", err)
		}
		meant = []access.Principal{p}
	}
	for _, p := range meant {
		if m, known = registry.Get(p); known {
			return m, true, nil
		}
	}
	return access.Member{}, false, nil
}

func unknownMember(name string) error {
	return reason.Errorf(reason.NotFound, "member %s does not exist", name).WithRemedy("See `palyra members list`.")
}

func checkMember(registry *access.Registry, m access.Member) error {
	if _, err := access.ParsePrincipal(m.Principal.String()); err != nil {
		return reason.Errorf(reason.InvalidInput, "member: %w", err)
	}
	if len(m.Roles) == 0 {
		return reason.Errorf(reason.InvalidInput, "%s has no role", m.Principal)
	}
	if err := knownRoles(registry, m.Roles); err != nil {
		return err
	}
	if err := checkKind(m); err != nil {
		return err
	}
	return checkOwner(registry, m)
}

// knownRoles refuses a role that is neither built in nor declared.
func knownRoles(registry *access.Registry, roles []access.Role) error {
	for _, r := range roles {
		if !registry.HasRole(r) {
			return reason.Errorf(reason.InvalidInput, "role %q does not exist", r).
				WithRemedy("Use one of %v, or declare it in palyra.toml.", registry.Roles())
		}
	}
	return nil
}

// checkKind refuses roles that the kind of a member must not hold.
func checkKind(m access.Member) error {
	switch m.Principal.Kind {
	case access.KindUser:
		if slices.Contains(m.Roles, access.RoleAgent) {
			return reason.Errorf(reason.InvalidInput, "%s would be a user with the role of agents, but an agent acts for an owner", m.Principal).
				WithRemedy("Name the owner of the agent: `palyrad operator add %s --role agent --owner USER`.", m.Principal.Name)
		}
		return nil
	case access.KindAgent:
		for _, r := range m.Roles {
			if !r.For(access.KindAgent) {
				return reason.Errorf(reason.InvalidInput, "%s cannot hold the role %q: an agent runs tools and makes no decisions", m.Principal, r)
			}
		}
		return nil
	default:
		return reason.Errorf(reason.InvalidInput, "%s: a member is a user or an agent", m.Principal)
	}
}

// checkOwner requires an owner for an agent, and none for a user.
func checkOwner(registry *access.Registry, m access.Member) error {
	if m.Principal.Kind == access.KindUser {
		if !m.Owner.IsZero() {
			return reason.Errorf(reason.InvalidInput, "%s is a user and has no owner", m.Principal)
		}
		return nil
	}
	owner, ok := registry.Get(m.Owner)
	if !ok || owner.Disabled || owner.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.InvalidInput, "%s needs an owner that is an active user; %q is not one", m.Principal, m.Owner.String())
	}
	return nil
}

// mayGive is a second check in addition to the API's permissions: an actor cannot give a member
// more permissions than it has itself.
func mayGive(registry *access.Registry, actor access.Principal, roles []access.Role) error {
	if actor == Daemon() {
		return nil
	}
	m, ok := registry.Active(actor)
	switch {
	case ok && m.Holds(access.RoleOwner):
		return nil
	case !ok || !m.Holds(access.RoleAdmin):
		return reason.Errorf(reason.PermissionDenied, "%s may not change members", actor)
	case slices.Contains(roles, access.RoleOwner) || slices.Contains(roles, access.RoleAdmin):
		return reason.Errorf(reason.PermissionDenied, "only an owner changes owners and admins")
	}
	return nil
}

func mayRevoke(registry *access.Registry, actor access.Principal, dev Device) error {
	if actor == Daemon() {
		return nil
	}
	m, ok := registry.Active(actor)
	if ok && (actor == dev.Principal || m.Holds(access.RoleOwner)) {
		return nil
	}
	if !ok || !m.Holds(access.RoleAdmin) {
		return reason.Errorf(reason.PermissionDenied, "%s may not change the device of %s", actor, dev.Principal)
	}
	if of, known := registry.Get(dev.Principal); known && slices.Contains(of.Roles, access.RoleOwner) {
		return reason.Errorf(reason.PermissionDenied, "only an owner changes the device of an owner")
	}
	return nil
}

// waits reports whether a member cannot act only because consent is missing.
func waits(registry *access.Registry, p access.Principal) bool {
	m, active := registry.Active(p)
	return !active && m.AwaitsConsent
}

// owns reports whether an agent acts for the user.
func owns(registry *access.Registry, user, agent access.Principal) bool {
	m, known := registry.Get(agent)
	return known && m.Owner == user
}

// agentsOf returns the agents of a user that were not removed.
func agentsOf(registry *access.Registry, owner access.Principal) (list []string) {
	for _, m := range registry.List() {
		if m.Owner == owner && !m.Removed() {
			list = append(list, m.Principal.String())
		}
	}
	return list
}

// tidy sorts roles and removes duplicates, so that events can be compared.
func tidy(roles []access.Role) []access.Role {
	out := append(make([]access.Role, 0, len(roles)), roles...)
	slices.Sort(out)
	return slices.Compact(out)
}

// without returns the list without the elements of but.
func without(list, but []access.Role) []access.Role {
	return slices.DeleteFunc(slices.Clone(list), func(r access.Role) bool { return slices.Contains(but, r) })
}
