package egress

import (
	"net/netip"
	"strings"

	"palyra/internal/core/reason"
)

// Rule matches hosts and, optionally, one port. Its forms:
//
//	example.org          this host
//	*.example.org        every host below it, not itself
//	192.0.2.7, [::1]     this address
//	10.0.0.0/8           every address in the prefix
//
// each with an optional ":port"; an IPv6 address or prefix with a port must be in brackets.
type Rule struct {
	text   string
	host   Host         // an exact name
	suffix string       // ".example.org" for a wildcard
	prefix netip.Prefix // an address (all bits) or a prefix
	port   uint16       // 0 is any port
}

// ParseRule reads one rule. Errors carry reason.HostInvalid.
func ParseRule(s string) (Rule, error) {
	if strings.Contains(s, "://") {
		return Rule{}, urlRefused(s)
	}
	pattern, port, err := splitRule(s)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{text: s, port: port}
	switch {
	case strings.Contains(pattern, "/"):
		r.prefix, err = parsePrefix(pattern)
	case strings.HasPrefix(pattern, "*."):
		var host Host
		if host, err = CanonicalHost(pattern[2:]); err == nil && host.name == "" {
			err = invalid(s, "an address cannot follow a wildcard")
		}
		r.suffix = "." + host.name
	case strings.Contains(pattern, "*"):
		err = invalid(s, "a wildcard stands at the beginning, before a dot").WithRemedy("Write *.example.org for every host below a domain.")
	default:
		r.host, err = CanonicalHost(pattern)
		if addr, ok := r.host.Addr(); ok {
			r.host, r.prefix = Host{}, single(addr)
		}
	}
	if err != nil {
		return Rule{}, err
	}
	return r, nil
}

// ParseRules reads a list of rules.
func ParseRules(list []string) ([]Rule, error) {
	rules := make([]Rule, 0, len(list))
	for _, s := range list {
		r, err := ParseRule(s)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func splitRule(s string) (pattern string, port uint16, err error) {
	pattern = s
	number := ""
	switch {
	case strings.HasPrefix(s, "["):
		inside, rest, ok := strings.Cut(s[1:], "]")
		if !ok || rest != "" && !strings.HasPrefix(rest, ":") {
			return "", 0, invalid(s, "the brackets do not match")
		}
		if !strings.Contains(inside, ":") {
			return "", 0, invalid(s, "only an IPv6 address may be in brackets")
		}
		if rest == "" {
			return inside, 0, nil
		}
		pattern, number = inside, rest[1:]
	case strings.Count(s, ":") == 1:
		pattern, number, _ = strings.Cut(s, ":")
	default:
		return pattern, 0, nil
	}
	port, err = ParsePort(number)
	return pattern, port, err
}

func parsePrefix(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, invalid(s, "it is not a prefix in the form address/bits")
	}
	if prefix.Masked() != prefix {
		return netip.Prefix{}, invalid(s, "bits beyond the prefix length are set; write "+prefix.Masked().String())
	}
	if prefix.Addr().Is4In6() {
		return netip.Prefix{}, invalid(s, "write an IPv4 prefix as IPv4")
	}
	return prefix, nil
}

// String returns the rule as it was written.
func (r Rule) String() string { return r.text }

// bracketed returns a rule without a port in the form that may precede a port.
func (r Rule) bracketed() string {
	if strings.Contains(r.text, ":") && !strings.HasPrefix(r.text, "[") {
		return "[" + r.text + "]"
	}
	return r.text
}

// matches has a pointer receiver, because a rule is large and lists are searched for every
// connection.
func (r *Rule) matches(host Host, port uint16) bool {
	switch {
	case r.port != 0 && r.port != port:
		return false
	case host.addr.IsValid():
		return r.prefix.IsValid() && r.prefix.Contains(host.addr)
	case r.suffix != "":
		return strings.HasSuffix(host.name, r.suffix)
	}
	return r.host.name != "" && r.host.name == host.name
}

// Rules are an allowlist and a denylist. A denial takes precedence.
type Rules struct {
	Allow []Rule
	Deny  []Rule
	// Gateway is never reached, regardless of Allow.
	Gateway *Gateway
	// unlocking replaces Allow as the rules that unlock special addresses, in rules that a caller
	// narrowed.
	unlocking []Rule
}

// Answer is the result of matching rules against a host and port.
type Answer uint8

// The answers of Rules.Match. The zero value allows nothing.
const (
	Unlisted Answer = iota
	Denied
	Allowed
)

// Match evaluates a host and returns the rule that decided.
func (r Rules) Match(host Host, port uint16) (Answer, Rule) {
	if i := find(r.Deny, host, port); i >= 0 {
		return Denied, r.Deny[i]
	}
	if i := find(r.Allow, host, port); i >= 0 {
		return Allowed, r.Allow[i]
	}
	return Unlisted, Rule{}
}

// find returns the index of the first rule that matches, or -1.
func find(rules []Rule, host Host, port uint16) int {
	for i := range rules {
		if rules[i].matches(host, port) {
			return i
		}
	}
	return -1
}

// Check is Match as an error: nil if a Dialer with OpenByDefault may connect to the host.
func (r Rules) Check(host Host, port uint16) error {
	answer, rule := r.Match(host, port)
	return r.refuse(answer, rule, Target{host, port}, true)
}

// refuse returns the error of an answer, or nil if the target is allowed.
func (r Rules) refuse(answer Answer, rule Rule, t Target, openByDefault bool) error {
	switch {
	case answer == Allowed, answer == Unlisted && openByDefault && len(r.Allow) == 0:
		return nil
	case answer == Denied:
		return reason.Errorf(reason.EgressDenied, "%s is denied", t).WithField("rule", rule.String())
	}
	return reason.Errorf(reason.EgressDenied, "%s is not on the allowlist", t)
}

// ByWildcard reports whether every rule that allows a name allows others below its suffix too. The
// program then chooses the name, so that looking it up sends data to the name servers of the
// suffix.
func (r Rules) ByWildcard(host Host) bool {
	wildcard := false
	for _, rule := range r.Allow {
		if rule.matches(host, rule.port) {
			if rule.suffix == "" {
				return false
			}
			wildcard = true
		}
	}
	return wildcard
}

// CheckName returns "" for a host that is allowed at some port, and otherwise the reason of the
// denial.
func (r Rules) CheckName(host Host) string {
	why := ReasonUnlisted
	for _, rule := range r.Allow {
		if !rule.matches(host, rule.port) {
			continue
		}
		// A rule without a port covers all ports; only a denial without a port removes it
		// completely.
		if find(r.Deny, host, rule.port) < 0 {
			return ""
		}
		why = ReasonDeniedRule
	}
	return why
}

// unlocks reports whether an allow rule names this special address explicitly.
func (r Rules) unlocks(addr netip.Addr, block netip.Prefix, port uint16) bool {
	rules := r.unlocked()
	for i := range rules {
		if rules[i].unlocks(addr, block, port) {
			return true
		}
	}
	return false
}

// unlocks reports whether the rule names the address itself, or a prefix inside the special block.
// 0.0.0.0/0 does not name the loopback address explicitly.
func (r *Rule) unlocks(addr netip.Addr, block netip.Prefix, port uint16) bool {
	if r.port != 0 && r.port != port || !r.prefix.IsValid() || !r.prefix.Contains(addr) {
		return false
	}
	return r.prefix.IsSingleIP() || block.IsValid() && block.Contains(r.prefix.Addr()) && r.prefix.Bits() >= block.Bits()
}
