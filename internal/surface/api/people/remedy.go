package people

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// remedy returns the next step after a refusal. Each step that it names is possible: it names a
// role only if the policies would then allow the request and a member can assign the role.
func (r *review) remedy(p access.Permission, j policy.Judgement, able []string) string {
	switch forbids := forbidding(j); {
	case len(j.Errors) > 0:
		return reason.Lookup(reason.PolicyError).Remedy
	case len(forbids) > 0:
		return r.againstForbids(forbids, p, able)
	}
	if role, ok := r.bestRole(p); ok {
		return r.giveRole(role)
	}
	return r.askingOthers(able, fmt.Sprintf("No role of %s can grant %s.", r.of.Principal, p))
}

func forbidding(j policy.Judgement) []policy.Determining {
	return slices.DeleteFunc(slices.Clone(j.Determining), func(d policy.Determining) bool { return d.Effect != "forbid" })
}

// againstForbids returns the next step for a permission that policies forbid. No other policy
// overrides a built-in policy.
func (r *review) againstForbids(forbids []policy.Determining, p access.Permission, able []string) string {
	if lifted := r.ceilingRemedy(); lifted != "" {
		return lifted
	}
	for _, d := range forbids {
		if r.builtin(d.ID) {
			return r.askingOthers(able, fmt.Sprintf("The built-in policy %s forbids it; no role and no other policy overrides it.", d.ID))
		}
	}
	for _, d := range forbids {
		if d.Remedy != "" {
			return d.Remedy
		}
	}
	at := make([]string, len(forbids))
	for i, d := range forbids {
		at[i] = fmt.Sprintf("%s (%s:%d)", d.ID, d.File, d.Line)
	}
	text := "A policy of this gateway forbids it"
	if r.why {
		text += ": " + strings.Join(at, ", ")
	}
	return r.askingOthers(able, text+".") + " The maintainer of the policy directory can change the policy."
}

// ceilingRemedy returns the step that admits the member, or "" if no ceiling excludes it.
func (r *review) ceilingRemedy() string {
	s := r.set.View().Config().Snapshot
	switch who := r.of.Principal; {
	case slices.Contains(s.ForbiddenPrincipals, who):
		return r.change("palyra access allow "+who.String(), "admit it again")
	case s.AllowedPrincipals != nil && !slices.Contains(s.AllowedPrincipals, who):
		return "Add " + who.String() + " to allowed_principals in palyra.toml on the gateway's host, and restart palyrad."
	}
	return ""
}

func (r *review) builtin(id string) bool {
	for _, p := range r.set.View().Policies() {
		if p.ID == id {
			return p.Builtin
		}
	}
	return false
}

// askingOthers adds a reference to the other members who have the permission, or a note that no
// other member has it.
func (r *review) askingOthers(able []string, text string) string {
	switch {
	case len(able) == 0:
		return text + " No other member can do it now."
	case r.others:
		return text + " Ask " + oneOf(able) + "."
	}
	return text + " Ask a member with the permission."
}

func oneOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s, or one of %d others", strings.Join(names[:most], ", "), len(names)-most)
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// bestRole returns the role that grants the permission and the fewest others.
func (r *review) bestRole(p access.Permission) (access.Role, bool) {
	var best access.Role
	fewest := len(access.Permissions) + 1
	powers := powersOf(r.set)
	for _, role := range r.set.View().Roles() {
		if r.of.Holds(role) || !role.For(r.of.Principal.Kind) || !r.wouldAllow(role, p) {
			continue
		}
		if n := len(powers[role]); n < fewest {
			best, fewest = role, n
		}
	}
	return best, best != ""
}

// wouldAllow reports whether the member would have a permission if it also held a role.
func (r *review) wouldAllow(role access.Role, p access.Permission) bool {
	view := r.set.View()
	cfg := view.Config()
	m := r.of
	m.Roles = append(slices.Clone(m.Roles), role)
	cfg.Members = slices.Clone(cfg.Members)
	i := slices.IndexFunc(cfg.Members, func(one access.Member) bool { return one.Principal == m.Principal })
	if i < 0 {
		return false
	}
	cfg.Members[i] = m
	return view.TryAccess(&policy.Change{Config: cfg}, policy.AccessRequest{Caller: caller(m), Permission: p})[0].Allowed
}

// giveRole returns the command that gives the member a role, and the members who can run it.
func (r *review) giveRole(role access.Role) string {
	return r.change(fmt.Sprintf("palyra members roles %s --add %s", r.of.Principal, role), "give it the role "+string(role), role)
}

// reactivation returns the next step for a member whose credentials are refused.
func (r *review) reactivation() string {
	off := r.of
	if !off.Disabled && !off.Removed() {
		off, _ = memberNamed(r.members, r.of.Owner.String())
	}
	switch {
	case r.of.Removed():
		return "Add a member with another name: `palyra members add NAME --role ROLE`, or on the gateway's host `palyrad operator add NAME --role ROLE`."
	case off.Principal.IsZero() || off.Removed():
		return r.change("palyra members owner "+r.of.Principal.String()+" USER", "give it another owner")
	case !off.Disabled && r.of.AwaitsConsent:
		return r.of.Waiting().NextStep()
	}
	return r.change("palyra members enable "+off.Principal.String(), "enable "+off.Principal.String(), off.Roles...)
}

// change returns a command that changes members, and the members who can run it. The gateway's
// host can always create an owner.
func (r *review) change(command, what string, concerns ...access.Role) string {
	switch may := r.changers(slices.Concat(concerns, r.of.Roles)); {
	case len(may) == 0:
		return "No member who may " + what + " can act now. On the gateway's host, give an owner a new device with `palyrad operator bundle NAME`, or add an owner with `palyrad operator add NAME --role owner`. The owner then runs `" + command + "`."
	case r.others:
		return oneOf(may) + " can " + what + ": `" + command + "`."
	default:
		return "A member with access.write can " + what + ": `" + command + "`."
	}
}

// changers returns the members who can now change a member that has or gets these roles. Policy
// must permit the change, and only owners may change owners and admins.
func (r *review) changers(concerned []access.Role) []string {
	powerful := slices.Contains(concerned, access.RoleOwner) || slices.Contains(concerned, access.RoleAdmin)
	var out []string
	for _, m := range r.members {
		switch {
		case !m.CanVote() || !r.may(m, access.PermAccessWrite):
		case powerful && !(m.Holds(access.RoleOwner) && r.may(m, access.PermAccessWriteOwner)):
		case m.Holds(access.RoleOwner) || m.Holds(access.RoleAdmin):
			out = append(out, m.Principal.String())
		}
	}
	return out
}
