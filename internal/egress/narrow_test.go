package egress

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func rulesOf(t *testing.T, list ...string) []Rule {
	t.Helper()
	return must.Get(ParseRules(list))(t)
}

func targetsOf(t *testing.T, list ...string) []Target {
	t.Helper()
	var targets []Target
	for _, s := range list {
		target := must.Get(ParseTarget(s))(t)
		targets = append(targets, target)
	}
	return targets
}

// TestNarrow: narrowed rules allow no more than the original rules, and unlock nothing.
func TestNarrow(t *testing.T) {
	t.Parallel()
	wide := Rules{
		Allow: rulesOf(t, "*.example.org:443", "db.internal:5432", "10.0.0.7:5432", "0.0.0.0/0:80"),
		Deny:  rulesOf(t, "bad.example.org"),
	}
	narrow := wide.Narrow(targetsOf(t, "api.example.org:443", "db.internal:5432", "10.0.0.8:80", "bad.example.org:443", "other.test:443"))
	want := []string{"10.0.0.8:80", "api.example.org:443", "db.internal:5432"}
	if got := (Reach{Rules: narrow}).Hosts(); !slices.Equal(got, want) {
		t.Errorf("allowed %q, want %q", got, want)
	}
	if _, rule := narrow.Match(targetsOf(t, "api.example.org:443")[0].Host, 443); rule.String() != "*.example.org:443" {
		t.Errorf("the record would name the rule %q", rule)
	}
	for target, allowed := range map[string]bool{
		"api.example.org:443": true, "www.example.org:443": false, "api.example.org:80": false,
		"db.internal:5432": true, "10.0.0.7:5432": false, "1.1.1.1:80": false, "bad.example.org:443": false,
	} {
		to := targetsOf(t, target)[0]
		if answer, _ := narrow.Match(to.Host, to.Port); (answer == Allowed) != allowed {
			t.Errorf("%s: %v, want allowed %t", target, answer, allowed)
		}
	}
	// An address that the operator unlocked stays unlocked. An address that only the caller named
	// is not unlocked.
	private, database := targetsOf(t, "10.0.0.8:80")[0], targetsOf(t, "10.0.0.7:5432")[0]
	if narrow.CheckAddress(private.Host, private.Port) == nil {
		t.Error("naming a private address unlocked it")
	}
	if err := narrow.CheckAddress(database.Host, database.Port); err != nil {
		t.Errorf("the address of an allowed name is locked: %v", err)
	}
	// Control: the operator's own rule unlocks it.
	named := Rules{Allow: rulesOf(t, "10.0.0.8:80")}
	if err := named.Narrow(targetsOf(t, "10.0.0.8:80")).CheckAddress(private.Host, private.Port); err != nil {
		t.Errorf("an address that the operator named: %v", err)
	}
	if again := narrow.Narrow(targetsOf(t, "db.internal:5432")); again.CheckAddress(database.Host, database.Port) != nil {
		t.Error("narrowing twice locks the address")
	}
	if got := (Reach{Rules: wide}).Narrow(nil).Hosts(); len(got) != 0 {
		t.Errorf("narrowed to nothing it allows %q", got)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule, allowed string
		want          bool
	}{
		{"api.example.org:443", "api.example.org:443", true},
		{"api.example.org:443", "*.example.org:443", true},
		{"*.example.org:443", "api.example.org:443", true},
		{"*.a.example.org:443", "*.example.org:443", true},
		{"*.example.org:443", "*.a.example.org:443", true},
		{"api.example.org", "*.example.org:443", true},
		{"api.example.org:80", "*.example.org:443", false},
		{"example.org:443", "*.example.org:443", false},
		{"*.badexample.org:443", "*.example.org:443", false},
		{"10.0.0.7:443", "10.0.0.0/8:443", true},
		{"10.0.0.0/8:443", "11.0.0.0/8:443", false},
		{"10.0.0.7:443", "*.example.org:443", false},
		{"[::1]:443", "127.0.0.1:443", false},
	} {
		g := Reach{
			Rules:   Rules{Allow: rulesOf(t, row.allowed)},
			Inspect: []Inspection{{Host: rulesOf(t, row.rule)[0]}},
			Secrets: []Secret{{Name: "s", Hosts: rulesOf(t, "unrelated.test:443", row.rule)}},
		}.Reachable()
		if (len(g.Inspect) == 1) != row.want || (len(g.Secrets) == 1) != row.want {
			t.Errorf("%s under %s: %d inspected, %d secrets, want %t", row.rule, row.allowed, len(g.Inspect), len(g.Secrets), row.want)
		}
	}
}

// TestLines: every setting with an effect changes the lines, and its notation does not.
func TestLines(t *testing.T) {
	t.Parallel()
	base := func() Reach {
		return Reach{
			Rules:   Rules{Allow: rulesOf(t, "b.org:443", "A.org.:443", "[2001:DB8::/32]:443", "[::1]:80", "*.C.org:22"), Deny: rulesOf(t, "x.org")},
			Inspect: []Inspection{{Host: rulesOf(t, "a.org:443")[0], Methods: []string{"HEAD", "GET"}, Paths: []string{"/b,c", "/a/**"}}},
			Secrets: []Secret{{Name: "token", Header: "Authorization", Env: "TOKEN", Hosts: rulesOf(t, "a.org:443")}},
		}
	}
	want := []string{
		"*.c.org:22", "[2001:db8::/32]:443", "[::1]:80", "a.org:443", "b.org:443", "deny x.org",
		`inspect a.org:443 methods=GET,HEAD paths="/a/**","/b,c"`,
		"secret token header=Authorization hosts=a.org:443 env=TOKEN",
		"budget connections=10000 concurrent=128 bytes_out=67108864 bytes_in=4294967296 requests=100000 time=1h0m0s",
	}
	if got := base().Lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, change := range map[string]func(*Reach){
		"a host":             func(g *Reach) { g.Rules.Allow = g.Rules.Allow[1:] },
		"a denial":           func(g *Reach) { g.Rules.Deny = nil },
		"a method":           func(g *Reach) { g.Inspect[0].Methods = nil },
		"a path":             func(g *Reach) { g.Inspect[0].Paths = []string{"/b", "c", "/a/**"} },
		"a secret":           func(g *Reach) { g.Secrets[0].Name = "other" },
		"a secret's host":    func(g *Reach) { g.Secrets[0].Hosts = rulesOf(t, "b.org:443") },
		"a budget":           func(g *Reach) { g.Budget.BytesOut = 1 },
		"unlocked addresses": func(g *Reach) { g.Rules.unlocking = rulesOf(t, "10.0.0.7:443") },
	} {
		g := base()
		change(&g)
		if slices.Equal(g.Lines(), want) {
			t.Errorf("%s changes nothing", name)
		}
	}
	if got := (Reach{Rules: Rules{Deny: rulesOf(t, "x.org")}}).Lines(); got != nil {
		t.Errorf("what reaches nothing has %q", got)
	}
	// The first matching inspection applies, so the order of inspections is significant.
	wide, narrow := Inspection{Host: rulesOf(t, "*.c.org:22")[0]}, Inspection{Host: rulesOf(t, "x.c.org:22")[0], Methods: []string{"GET"}}
	first, second := base(), base()
	first.Inspect, second.Inspect = []Inspection{wide, narrow}, []Inspection{narrow, wide}
	if slices.Equal(first.Lines(), second.Lines()) {
		t.Error("the order of the inspections changes nothing")
	}
	// Control: the order of rules is not significant.
	g := base()
	slices.Reverse(g.Rules.Allow)
	if !slices.Equal(g.Lines(), want) {
		t.Error("the order of the rules changes the lines")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	hosts := []string{"a.org:443", "b.org:80"}
	for _, row := range []struct {
		c     tool.Connection
		hosts []string
		want  string
	}{
		{tool.Connection{Host: "x.org", Port: 443, Verdict: VerdictDenied, Reason: ReasonUnlisted}, hosts, "Blocked host: x.org:443 (policy: this tool may reach only a.org:443, b.org:80). Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs."},
		{tool.Connection{Host: "x.org", Verdict: VerdictDenied, Reason: ReasonUnlisted, Leg: LegName}, hosts, "Blocked host: x.org (policy: this tool may reach only a.org:443, b.org:80). Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs."},
		{tool.Connection{Host: "::1", Port: 80, Verdict: VerdictDenied, Reason: ReasonUnlisted}, nil, "Blocked host: [::1]:80 (policy: this tool runs offline). Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs."},
		{tool.Connection{Host: "a.org", Port: 443, Verdict: VerdictAllowed, Reason: ReasonBudgetBytesOut}, hosts, "a.org:443 was broken off, as the budget of bytes sent is used up."},
		{tool.Connection{Host: "a.org", Port: 443, Verdict: VerdictFailed, Reason: ReasonUnreachable}, hosts, "a.org:443 could not be connected to."},
		{tool.Connection{Host: "a.org", Port: 443, Verdict: VerdictDenied, Reason: ReasonBadTLS}, hosts, "a.org:443 takes TLS on this port, and the program sent something else."},
		{tool.Connection{Host: "a.org", Port: 443, Verdict: VerdictFailed, Reason: ReasonBadTLS}, hosts, "a.org:443 did not prove who it is: its certificate or its TLS cannot be verified."},
		{tool.Connection{Host: "a.org", Port: 443, Verdict: VerdictAllowed}, hosts, ""},
		{tool.Connection{Verdict: VerdictDenied, Reason: ReasonBadSOCKS, Leg: LegSOCKS}, hosts, "A target without a host name was asked for with a SOCKS request other than a plain CONNECT."},
		{tool.Connection{Verdict: VerdictAllowed, BytesOut: 9}, hosts, ""}, // not listed
	} {
		if got := Explain(row.c, row.hosts); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	many := strings.Split(strings.Repeat("h.org:443 ", 70), " ")[:70]
	if got := Named(many); !strings.HasSuffix(got, " and 62 more") {
		t.Errorf("got %q", got)
	}
	if !Alarming(ReasonSecretMisplaced) || !Alarming(ReasonSecretUnverified) || Alarming(ReasonUnlisted) {
		t.Error("other reasons alarm than those about secrets")
	}
}
