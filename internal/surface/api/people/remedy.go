package people

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// remedy is what people can do about a refusal. It names nothing that nobody here
// could do: a role only if with it the set would allow, and if somebody may give it.
func (r *review) remedy(p access.Permission, j policy.Judgement, able []string) string {
	switch forbids := forbidding(j); {
	case len(j.Errors) > 0:
		return reason.Lookup(reason.PolicyError).Remedy
	case len(forbids) > 0:
		return r.againstForbids(forbids, p, able)
	}
	if role, ok := r.helps(p); ok {
		return r.giving(role)
	}
	return r.askingOthers(able, fmt.Sprintf("No role that %s could hold gives it %s.", r.of.Principal, p))
}

func forbidding(j policy.Judgement) []policy.Determining {
	return slices.DeleteFunc(slices.Clone(j.Determining), func(d policy.Determining) bool { return d.Effect != "forbid" })
}

// againstForbids is what to do about policies that forbid. The built-in ones yield to
// nothing that is written beside them.
func (r *review) againstForbids(forbids []policy.Determining, p access.Permission, able []string) string {
	if lifted := r.lifting(); lifted != "" {
		return lifted
	}
	for _, d := range forbids {
		if r.builtin(d.ID) {
			return r.askingOthers(able, fmt.Sprintf("The built-in policy %s is a ceiling that no role and no other policy lifts.", d.ID))
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
	said := "A policy of this gateway forbids it"
	if r.why {
		said += ": " + strings.Join(at, ", ")
	}
	return r.askingOthers(able, said+".") + " Whoever keeps the policy directory can change that."
}

// lifting is how a principal comes in that a ceiling keeps out; "" when none does.
func (r *review) lifting() string {
	s := r.set.View().Config().Snapshot
	switch who := r.of.Principal; {
	case slices.Contains(s.ForbiddenPrincipals, who):
		return r.change("palyra access allow "+who.String(), "let it in again")
	case s.AllowedPrincipals != nil && !slices.Contains(s.AllowedPrincipals, who):
		return "Whoever keeps palyra.toml on the gateway's host can add " + who.String() + " to allowed_principals, and restart palyrad."
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

// askingOthers sends to those who may, if there are any.
func (r *review) askingOthers(able []string, said string) string {
	switch {
	case len(able) == 0:
		return said + " Nobody else can do it now."
	case r.others:
		return said + " Ask " + oneOf(able) + "."
	}
	return said + " Ask somebody else who may."
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

// helps finds the role that brings the permission and the fewest others.
func (r *review) helps(p access.Permission) (access.Role, bool) {
	var best access.Role
	fewest := len(access.Permissions) + 1
	powers := powersOf(r.set)
	for _, role := range r.set.View().Roles() {
		if r.of.Holds(role) || !role.For(r.of.Principal.Kind) || !r.with(role, p) {
			continue
		}
		if n := len(powers[role]); n < fewest {
			best, fewest = role, n
		}
	}
	return best, best != ""
}

// with reports whether the member would have a permission if it held a role more.
func (r *review) with(role access.Role, p access.Permission) bool {
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

// giving says how the member gets a role, and from whom.
func (r *review) giving(role access.Role) string {
	return r.change(fmt.Sprintf("palyra members roles %s --add %s", r.of.Principal, role), "give it the role "+string(role), role)
}

// wayBack says how a member who may not act at all could again.
func (r *review) wayBack() string {
	off := r.of
	if !off.Disabled && !off.Removed() {
		off, _ = memberNamed(r.members, r.of.Owner.String())
	}
	switch {
	case r.of.Removed():
		return "A member with another name takes its place: `palyra members add NAME --role ROLE`, or on the gateway's host `palyrad operator add NAME --role ROLE`."
	case off.Principal.IsZero() || off.Removed():
		return r.change("palyra members owner "+r.of.Principal.String()+" USER", "give it another owner")
	case !off.Disabled && r.of.AwaitsConsent:
		return r.of.Waiting().NextStep()
	}
	return r.change("palyra members enable "+off.Principal.String(), "enable "+off.Principal.String(), off.Roles...)
}

// change is a change of members, with who can make it; on the host somebody always
// can come back who may.
func (r *review) change(command, what string, concerns ...access.Role) string {
	switch may := r.changers(slices.Concat(concerns, r.of.Roles)); {
	case len(may) == 0:
		return "Nobody who may " + what + " can act now. On the gateway's host, `palyrad operator bundle NAME` gives an owner a device again, and `palyrad operator add NAME --role owner` adds one, who then runs `" + command + "`."
	case r.others:
		return oneOf(may) + " can " + what + ": `" + command + "`."
	default:
		return "Somebody with access.write can " + what + ": `" + command + "`."
	}
}

// changers are the members who can change one now, where roles are concerned: what
// policy says, and that only owners touch owners and admins.
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
