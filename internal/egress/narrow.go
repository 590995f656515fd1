package egress

import (
	"slices"
	"strings"
)

// Narrow returns the reach of a call that needs only these targets; targets that g does not allow
// are omitted.
func (g Reach) Narrow(targets []Target) Reach {
	g.Rules = g.Rules.Narrow(targets)
	return g.Reachable()
}

// Reachable returns g without inspections and secrets for hosts that it does not
// allow.
func (g Reach) Reachable() Reach {
	g.Inspect = slices.DeleteFunc(slices.Clone(g.Inspect), func(i Inspection) bool { return !g.Rules.touch(i.Host) })
	g.Secrets = slices.DeleteFunc(slices.Clone(g.Secrets), func(s Secret) bool { return !g.Reaches(s) })
	return g
}

// Reaches reports whether g allows a host of the secret.
func (g Reach) Reaches(s Secret) bool { return slices.ContainsFunc(s.Hosts, g.Rules.touch) }

// touch reports whether an allow rule of r overlaps with a rule.
func (r Rules) touch(rule Rule) bool { return slices.ContainsFunc(r.Allow, rule.overlaps) }

func (r Rule) overlaps(o Rule) bool {
	if r.port != 0 && o.port != 0 && r.port != o.port {
		return false
	}
	switch {
	case r.prefix.IsValid() && o.prefix.IsValid():
		return r.prefix.Overlaps(o.prefix)
	case r.suffix != "" && o.suffix != "":
		return strings.HasSuffix(r.suffix, o.suffix) || strings.HasSuffix(o.suffix, r.suffix)
	case r.suffix != "":
		return strings.HasSuffix(o.host.name, r.suffix)
	case o.suffix != "":
		return strings.HasSuffix(r.host.name, o.suffix)
	}
	return r.host.name != "" && r.host == o.host
}

// Narrow returns rules that allow only those targets that r also allows. Denials of r remain, and
// only the rules of r unlock special addresses. Example: r allows 0.0.0.0/0, db.internal:5432 and
// 10.0.0.0/8. A call narrowed to 169.254.169.254:80 gets a rule that names this address, which
// would unlock it; r does not unlock it, because 0.0.0.0/0 does not name it explicitly. A call
// narrowed to db.internal:5432 loses the rule 10.0.0.0/8 and still reaches db.internal at 10.1.2.3,
// as r intends.
func (r Rules) Narrow(targets []Target) Rules {
	narrow := Rules{Deny: r.Deny, Gateway: r.Gateway, unlocking: r.unlocked()}
	for _, t := range targets {
		if answer, rule := r.Match(t.Host, t.Port); answer == Allowed {
			narrow.Allow = append(narrow.Allow, rule.only(t))
		}
	}
	return narrow
}

// only returns r restricted to one of its targets. It keeps the text of r, so that the record of a
// connection names the operator's rule that allowed it.
func (r Rule) only(t Target) Rule {
	rule := Rule{text: r.text, host: t.Host, port: t.Port}
	if addr, ok := t.Host.Addr(); ok {
		rule.host, rule.prefix = Host{}, single(addr)
	}
	return rule
}

// unlocked returns the rules that may unlock special addresses.
func (r Rules) unlocked() []Rule {
	if r.unlocking != nil {
		return r.unlocking
	}
	return r.Allow
}
