package egress

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Canonical returns the rule in canonical form: names in lower case and without a trailing dot,
// and an IPv6 address in brackets if it has a port.
func (r Rule) Canonical() string {
	pattern := r.host.String()
	switch {
	case r.suffix != "":
		pattern = "*" + r.suffix
	case r.prefix.IsSingleIP():
		pattern = r.prefix.Addr().String()
	case r.prefix.IsValid():
		pattern = r.prefix.String()
	}
	if r.port == 0 {
		return pattern
	}
	if strings.Contains(pattern, ":") {
		pattern = "[" + pattern + "]"
	}
	return pattern + ":" + strconv.Itoa(int(r.port))
}

// Hosts returns the allow rules in canonical form, sorted and without duplicates.
func (g Reach) Hosts() []string { return canonicals(g.Rules.Allow) }

// Lines describes all decisions in a stable order, reachable hosts first: reaches with equal lines
// allow the same connections. Approvals bind to the lines. Inspections keep their order, because
// the first match applies. An empty reach has no lines.
func (g Reach) Lines() []string {
	lines := g.Hosts()
	if len(lines) == 0 {
		return nil
	}
	for _, rule := range canonicals(g.Rules.Deny) {
		lines = append(lines, "deny "+rule)
	}
	for _, rule := range canonicals(addresses(g.Rules.unlocking)) {
		lines = append(lines, "unlock "+rule)
	}
	for _, i := range g.Inspect {
		lines = append(lines, i.line())
	}
	lines = append(lines, sorted(g.Secrets, Secret.line)...)
	return append(lines, g.Budget.OrDefault().line())
}

// addresses omits rules about names, which unlock no address.
func addresses(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.prefix.IsValid() })
}

func (i Inspection) line() string {
	paths := make([]string, len(i.Paths))
	for n, path := range i.Paths {
		paths[n] = strconv.Quote(path)
	}
	slices.Sort(paths)
	return fmt.Sprintf("inspect %s methods=%s paths=%s", i.Host.Canonical(), listed(slices.Sorted(slices.Values(i.Methods))), listed(paths))
}

// Reach returns the targets that may receive the value, in canonical form.
func (s Secret) Reach() []string { return canonicals(s.Hosts) }

func (s Secret) line() string {
	return fmt.Sprintf("secret %s header=%s hosts=%s env=%s", s.Name, s.Header, listed(s.Reach()), cmp.Or(s.Env, "none"))
}

func (b Budget) line() string {
	return fmt.Sprintf("budget connections=%d concurrent=%d bytes_out=%d bytes_in=%d requests=%d time=%s",
		b.Connections, b.Concurrent, b.BytesOut, b.BytesIn, b.Requests, b.Time)
}

func listed(list []string) string { return cmp.Or(strings.Join(list, ","), "any") }

func sorted[T any](list []T, line func(T) string) []string {
	lines := make([]string, 0, len(list))
	for _, one := range list {
		lines = append(lines, line(one))
	}
	slices.Sort(lines)
	return lines
}

func canonicals(rules []Rule) []string { return slices.Compact(sorted(rules, Rule.Canonical)) }
