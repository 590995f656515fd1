package egress

import (
	"errors"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestDenyWithoutPortIsForAllPorts(t *testing.T) {
	t.Parallel()
	rules := Rules{
		Allow: mustRules(t, "*.example.org", "a.example:443", "a.example:80", "10.0.0.0/8", "[2001:db8::/32]:443"),
		Deny:  mustRules(t, "bad.example.org", "half.example.org:443", "a.example:80", "10.1.0.0/16", "10.2.0.1:22"),
	}
	for text, want := range map[string]Answer{
		"bad.example.org:443": Denied, "bad.example.org:1": Denied, "bad.example.org:65535": Denied,
		"half.example.org:443": Denied, "half.example.org:444": Allowed, "a.example:80": Denied, "a.example:443": Allowed,
		"10.1.2.3:443": Denied, "10.2.0.1:22": Denied, "10.2.0.1:23": Allowed,
		"x.bad.example.org:443": Allowed, // a rule for a host does not apply to its subdomains
		"[2001:db8::1]:443":     Allowed, "[2001:db8::1]:80": Unlisted,
	} {
		to := target(t, text)
		if got, by := rules.Match(to.Host, to.Port); got != want {
			t.Errorf("%s: %v by %q, want %v", text, got, by, want)
		}
	}
}

func TestWildcardIsForNamesBelow(t *testing.T) {
	t.Parallel()
	rules := Rules{Allow: mustRules(t, "*.example.org")}
	for text, want := range map[string]Answer{
		"a.example.org:80": Allowed, "a.b.example.org:80": Allowed, "A.EXAMPLE.ORG.:80": Allowed, "xn--bcher-kva.example.org:80": Allowed,
		"example.org:80": Unlisted, "aexample.org:80": Unlisted, "a.example.org.evil:80": Unlisted, "example.organic:80": Unlisted,
		"127.0.0.1:80": Unlisted, "[::1]:80": Unlisted,
	} {
		to := target(t, text)
		if got, _ := rules.Match(to.Host, to.Port); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	rules := Rules{
		Allow: mustRules(t, "*.example.org:443", "*.example.org:22", "any.example", "10.0.0.0/8:443", "taken.example:443", "narrow.example:443", "narrow.example:80"),
		Deny: mustRules(t, "bad.example.org", "git.example.org:22", "half.example.org:443", "half.example.org:22", "any.example:25", "taken.example:443",
			"narrow.example:443", "10.0.0.9"),
	}
	for name, want := range map[string]string{
		"a.example.org": "", "example.org": ReasonUnlisted, "aexample.org": ReasonUnlisted, "bad.example.org": ReasonDeniedRule,
		"git.example.org":  "",               // on port 443
		"half.example.org": ReasonDeniedRule, // on either port
		"any.example":      "", "taken.example": ReasonDeniedRule, "narrow.example": "",
		"10.1.2.3": "", "10.0.0.9": ReasonDeniedRule, "11.0.0.1": ReasonUnlisted, "other.example": ReasonUnlisted,
	} {
		h := must.Get(CanonicalHost(name))(t)
		if got := rules.CheckName(h); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if (Rules{}).CheckName(Host{name: "a.example"}) != ReasonUnlisted {
		t.Error("zero rules allow a name")
	}
}

// TestRulesAreNamedAsWritten: a record names a rule by the text that the
// operator wrote.
func TestRulesAreNamedAsWritten(t *testing.T) {
	t.Parallel()
	written := []string{"EXAMPLE.org:443", "*.Example.net", "[::FFFF:1.2.3.4]:80", "10.0.0.0/8:22"}
	rules := Rules{Allow: mustRules(t, written...)}
	for text, want := range map[string]string{
		"example.ORG:443": written[0], "a.example.net:1": written[1], "1.2.3.4:80": written[2], "10.9.9.9:22": written[3],
	} {
		to := target(t, text)
		if answer, by := rules.Match(to.Host, to.Port); answer != Allowed || by.String() != want {
			t.Errorf("%s: %v by %q", text, answer, by)
		}
	}
}

// TestRefusedRulesSayWhatToWrite: the remedy shows the form that was probably meant.
func TestRefusedRulesSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ rule, remedy string }{
		{"https://example.org/x", "Leave out scheme and path"},
		{"example.org:https", "such as example.org:443"},
		{"*:443", "Write *.example.org"},
		{"*example.org:443", "Write *.example.org"},
		{"example.org", "such as example.org:443"},
		{"::1", "such as [::1]:443"},
		{"2001:db8::/32", "such as [2001:db8::/32]:443"},
	} {
		rule, err := ParseRule(row.rule)
		if err == nil {
			err = Reach{Rules: Rules{Allow: []Rule{rule}}}.Check()
		}
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.HostInvalid || !strings.Contains(known.NextStep(), row.remedy) {
			t.Errorf("%s: %v, %+v, want %q", row.rule, err, known, row.remedy)
		}
	}
}
