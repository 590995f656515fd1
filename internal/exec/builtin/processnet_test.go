package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/destination"
	"palyra/internal/exec/sandbox"
)

// networked sets an egress mode and a simulated network.
func networked(mode egress.Mode, rules ...string) func(*Config) {
	return func(c *Config) {
		allowed, err := egress.ParseRules(rules)
		if err != nil {
			panic(err)
		}
		c.Process.Egress, c.Process.Reach.Rules.Allow = mode, allowed
		c.Process.Resolver = names{"api.example.org": {"93.184.216.34"}, "inside.example.org": {"10.0.0.7"}, "meta.example.org": {"169.254.169.254"}, "other.test": {"93.184.216.35"}}
		c.Process.Interfaces = func() ([]netip.Addr, error) { return nil, nil }
	}
}

func TestHostsOfAProgram(t *testing.T) {
	t.Parallel()
	rules := []string{"example.org", "*.example.org", "10.0.0.9"}
	for _, row := range []struct {
		name  string
		mode  egress.Mode
		hosts []string
		want  reason.Code
		facts []string
	}{
		{"canonical, sorted, once", egress.Preflight, []string{"API.example.org.:443", "api.example.org:80", "api.example.org:443"}, "", []string{"api.example.org:443", "api.example.org:80"}},
		{"an address that a rule names", egress.Preflight, []string{"10.0.0.9:80"}, "", []string{"10.0.0.9:80"}},
		{"not on the list", egress.Preflight, []string{"api.example.org:443", "other.test:443"}, reason.EgressDenied, nil},
		{"an address that none names", egress.Preflight, []string{"10.0.0.8:80"}, reason.EgressDenied, nil},
		{"without a port", egress.Preflight, []string{"api.example.org"}, reason.HostInvalid, nil},
		{"a name in disguise", egress.Preflight, []string{"api.example.org@other.test:443"}, reason.HostInvalid, nil},
		{"none", egress.Unrestricted, []string{"api.example.org:443"}, reason.InvalidInput, nil},
		{"none, and asked to be offline", egress.Unrestricted, []string{}, reason.InvalidInput, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, r, _ := processBench(t, networked(row.mode, rules...))
			in := object{"argv": []string{"git"}, "hosts": row.hosts, "read_only": true}
			plan, err := b.plan("process.run", in)
			if row.want != "" {
				if reason.Of(err) != row.want {
					t.Errorf("got %v", err)
				}
				return
			}
			must.Do(t, err)
			if !slices.Equal(plan.Facts.EgressHosts, row.facts) || !slices.Equal(plan.Binding.Egress, append([]string{"preflight"}, row.facts...)) {
				t.Errorf("facts %v, binding %v", plan.Facts.EgressHosts, plan.Binding.Egress)
			}
			report, _ := b.call(context.Background(), "process.run", in)
			if r.specs[0].Egress != egress.Preflight || report.Egress.Mode != "preflight" || !slices.Equal(report.Egress.Allowed, row.facts) {
				t.Errorf("spec %+v, egress %+v", r.specs[0], report.Egress)
			}
		})
	}
}

// TestNamesAreLookedUpLate: a name is resolved after the decision on the call, not during
// planning. If the name resolves to a forbidden address, the program never starts.
func TestNamesAreLookedUpLate(t *testing.T) {
	t.Parallel()
	for host, addr := range map[string]string{"inside.example.org:443": "private", "meta.example.org:80": "metadata"} {
		asked := &counted{}
		b, r, _ := processBench(t, func(c *Config) {
			networked(egress.Preflight, "*.example.org")(c)
			asked.Resolver, c.Process.Resolver = c.Process.Resolver, asked
		})
		in := object{"argv": []string{"git"}, "hosts": []string{host}, "read_only": true}
		if _, err := b.plan("process.run", in); err != nil || asked.questions != 0 {
			t.Errorf("%s: planned with %d questions: %v", host, asked.questions, err)
		}
		report, _ := b.call(context.Background(), "process.run", in)
		if report.Reason != string(reason.EgressDenied) || !strings.Contains(report.Message, addr) || len(r.specs) != 0 || asked.questions != 1 {
			t.Errorf("%s: %s %s, %d programs, %d questions", host, report.Reason, report.Message, len(r.specs), asked.questions)
		}
	}
}

// counted counts the queries to a resolver.
type counted struct {
	egress.Resolver
	questions int
}

func (c *counted) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	c.questions++
	return c.Resolver.LookupNetIP(ctx, network, host)
}

// TestNetworkIsReported: facts, prompt, risk and attestation agree about the network.
func TestNetworkIsReported(t *testing.T) {
	t.Parallel()
	for mode, want := range map[egress.Mode]struct {
		attested, level, summary, note string
		risk                           int
	}{
		egress.Strict:       {"strict", sandbox.LevelStrict, "git in default", "", riskProcess}, // no host is allowed
		egress.Preflight:    {"preflight", sandbox.LevelPreflight, "its hosts checked before the start only", "nothing holds the program to them", riskProcess + riskNetwork},
		egress.Unrestricted: {"unrestricted", sandbox.LevelNone, "the unrestricted network of the machine", "its traffic is not limited", riskProcess + riskNetwork},
	} {
		b, r, _ := processBench(t, networked(mode))
		layers := []string{"network_namespace", "seccomp"}
		if mode != egress.Strict {
			layers = layers[1:]
		}
		r.report.Requested, r.report.Applied = layers, layers
		in := object{"argv": []string{"git"}, "read_only": true}
		plan := must.Get(b.plan("process.run", in))(t)
		if plan.Facts.EgressMode != mode.String() || plan.Facts.Risk != want.risk || !strings.Contains(plan.Preview.Summary, want.summary) ||
			!strings.Contains(strings.Join(plan.Preview.Notes, "\n"), want.note) {
			t.Errorf("%s: %+v, %+v", mode, plan.Facts, plan.Preview)
		}
		report, _ := b.call(context.Background(), "process.run", in)
		if report.Egress.Mode != want.attested || report.Enforcement.Level != want.level {
			t.Errorf("%s: egress %+v, level %s", mode, report.Egress, report.Enforcement.Level)
		}
	}
}

// strictly sets the mode strict with all settings of an operator.
func strictly(c *Config) {
	networked(egress.Strict, "api.example.org:443", "*.example.org:80", "db.test:5432", "10.0.0.7:5432")(c)
	c.Process.Resolver = names{"api.example.org": {"93.184.216.34"}, "www.example.org": {"93.184.216.35"}, "db.test": {"10.0.0.7"}, "inside.example.org": {"10.0.0.8"}}
	rule := func(s string) egress.Rule {
		r, err := egress.ParseRule(s)
		if err != nil {
			panic(err)
		}
		return r
	}
	c.Process.Reach.Rules.Deny = []egress.Rule{rule("evil.example.org")}
	c.Process.Reach.Inspect = []egress.Inspection{{Host: rule("api.example.org:443"), Methods: []string{"GET"}, Paths: []string{"/repos/**"}}}
	c.Process.Reach.Secrets = []egress.Secret{{Name: "token", Env: "TOKEN", Header: "Authorization", Hosts: []egress.Rule{rule("api.example.org:443")}}}
	c.Process.Reach.Budget.BytesOut = 1000
}

// TestStrictHosts: a program reaches all hosts that the operator allows, or the ones that its
// call names, or none. Binding, facts, prompt and grant agree.
func TestStrictHosts(t *testing.T) {
	t.Parallel()
	all := []string{"*.example.org:80", "10.0.0.7:5432", "api.example.org:443", "db.test:5432"}
	const inspect, secret = `inspect api.example.org:443 methods=GET paths="/repos/**"`, "secret token header=Authorization hosts=api.example.org:443 env=TOKEN"
	const deny, budget = "deny evil.example.org", "budget connections=10000 concurrent=128 bytes_out=1000 bytes_in=4294967296 requests=100000 time=1h0m0s"
	for _, row := range []struct {
		name    string
		hosts   []string
		want    []string
		binding []string
		summary string
		notes   []string
	}{
		{"all that is allowed", nil, all, slices.Concat([]string{"strict"}, all, []string{deny, inspect, secret, budget}),
			", which may reach *.example.org:80, 10.0.0.7:5432, api.example.org:443, db.test:5432 and nothing else, with the secrets token",
			[]string{"at most 1000 bytes", "Requests to api.example.org:443 are inspected: method GET, path /repos/**.", "may use the secret token in the header Authorization, for api.example.org:443 alone"}},
		{"some of it", []string{"WWW.example.org:80", "www.example.org.:80"}, []string{"www.example.org:80"},
			[]string{"strict", "www.example.org:80", deny, "unlock 10.0.0.7:5432", budget},
			"git in default, which may reach www.example.org:80 and nothing else", []string{"at most 1000 bytes"}},
		{"a name of an address that is allowed", []string{"db.test:5432"}, []string{"db.test:5432"},
			[]string{"strict", "db.test:5432", deny, "unlock 10.0.0.7:5432", budget}, "db.test:5432 and nothing else", nil},
		{"offline", []string{}, nil, []string{"strict"}, "git in default", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, r, _ := processBench(t, strictly)
			in := object{"argv": []string{"git"}, "read_only": true}
			if row.hosts != nil {
				in["hosts"] = row.hosts
			}
			plan := must.Get(b.plan("process.run", in))(t)
			risk := riskProcess
			if row.want != nil {
				risk += riskHosts
			}
			if !slices.Equal(plan.Facts.EgressHosts, row.want) || plan.Facts.EgressMode != "strict" || plan.Facts.Risk != risk {
				t.Errorf("facts %+v", plan.Facts)
			}
			if !slices.Equal(plan.Binding.Egress, row.binding) {
				t.Errorf("binding\n%s\nwant\n%s", strings.Join(plan.Binding.Egress, "\n"), strings.Join(row.binding, "\n"))
			}
			notes := strings.Join(plan.Preview.Notes, "\n")
			for _, note := range row.notes {
				if !strings.Contains(notes, note) {
					t.Errorf("notes %q lack %q", notes, note)
				}
			}
			if !strings.Contains(plan.Preview.Summary, row.summary) || strings.Contains(notes, "secret token") != (row.hosts == nil) {
				t.Errorf("summary %q, notes %q", plan.Preview.Summary, notes)
			}
			var secrets, placeholders []string
			if row.hosts == nil {
				secrets, placeholders = []string{"token"}, []string{"TOKEN=secret:token@current"}
			}
			if !slices.Equal(plan.Facts.Secrets, secrets) || !slices.Equal(plan.Binding.Environment, placeholders) {
				t.Errorf("secrets %q, environment %q", plan.Facts.Secrets, plan.Binding.Environment)
			}
			report, _ := b.call(context.Background(), "process.run", in)
			network := r.specs[0].Network
			if network == nil || !slices.Equal(network.Hosts(), row.want) {
				t.Errorf("the sandbox may reach %+v", network)
			}
			if report.Egress.Mode != "strict" || !slices.Equal(report.Egress.Allowed, row.want) {
				t.Errorf("egress %+v", report.Egress)
			}
		})
	}
}

// TestStrictRefusals: an unreachable host is refused before an approval, and the error lists the
// allowed hosts.
func TestStrictRefusals(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		host   string
		want   reason.Code
		remedy string
	}{
		{"other.test:443", reason.EgressDenied, "(*.example.org:80, 10.0.0.7:5432, api.example.org:443, db.test:5432)"},
		{"api.example.org:80", "", ""}, // control: the wildcard
		{"api.example.org:22", reason.EgressDenied, "api.example.org:443"},
		{"evil.example.org:80", reason.EgressDenied, "process_runner.denied_egress_hosts"},
		{"inside.example.org:80", "", ""}, // private address: only the sandbox resolves and refuses it
		{"api.example.org", reason.HostInvalid, "Write host and port"},
		{"https://api.example.org/", reason.HostInvalid, "Leave out scheme"},
		{"0x7f.1:80", reason.HostInvalid, ""},
	} {
		b, _, _ := processBench(t, strictly)
		_, err := b.plan("process.run", object{"argv": []string{"git"}, "hosts": []string{row.host}})
		var known *reason.Error
		if reason.Of(err) != row.want || errors.As(err, &known) && !strings.Contains(known.NextStep(), row.remedy) {
			t.Errorf("%s: %v, %+v", row.host, err, known)
		}
	}
	b, _, _ := processBench(t, networked(egress.Strict))
	_, err := b.plan("process.run", object{"argv": []string{"git"}, "hosts": []string{"api.example.org:443"}})
	var known *reason.Error
	if !errors.As(err, &known) || known.Code != reason.EgressDenied || !strings.Contains(known.Remedy, "programs run offline") {
		t.Errorf("where nothing is allowed: %v", err)
	}
	// Programs run offline, or not at all, if the machine cannot restrict programs to hosts.
	open, _, _ := processBench(t, func(c *Config) { strictly(c); c.Sandbox.Layers = []string{"copy_on_write"} })
	open.refused("process.run", object{"argv": []string{"git"}}, reason.SandboxUnavailable)
	open.refused("process.run", object{"argv": []string{"git"}, "hosts": []string{"www.example.org:80"}}, reason.SandboxUnavailable)
	if _, err := open.plan("process.run", object{"argv": []string{"git"}, "hosts": []string{}}); err != nil {
		t.Errorf("offline there: %v", err)
	}
}

// TestDenialsAreInTheNotes: the notes list denied and allowed hosts for the model. The record
// contains every connection.
func TestDenialsAreInTheNotes(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, strictly)
	denied := tool.Connection{Host: "x.org", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted, Leg: egress.LegTransparent}
	r.report.Connections = []tool.Connection{
		{Host: "api.example.org", Port: 443, Verdict: egress.VerdictAllowed, BytesOut: 10},
		denied, denied,
		{Host: "api.example.org", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonSecretMisplaced},
	}
	report, result := b.call(context.Background(), "process.run", object{"argv": []string{"git"}, "read_only": true, "hosts": []string{"api.example.org:443"}})
	want := []any{
		"Blocked host: x.org:443 (policy: this tool may reach only api.example.org:443). Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs.",
		"api.example.org:443 was sent a secret's placeholder in a place where the secret does not belong; nothing was sent.",
	}
	if notes, _ := result["notes"].([]any); !slices.Equal(notes, want) || !slices.Equal(report.Egress.Observed, r.report.Connections) {
		t.Errorf("notes %q, egress %+v", result["notes"], report.Egress)
	}
	// The number of notes is limited.
	r.report.Connections = nil
	for i := range 20 {
		denied.Port = i + 1
		r.report.Connections = append(r.report.Connections, denied)
	}
	r.report.ConnectionsMissed = 5
	report, result = b.call(context.Background(), "process.run", object{"argv": []string{"git"}, "read_only": true})
	notes, _ := result["notes"].([]any)
	if len(notes) != 9 || notes[8] != "More was kept from the network: 12 other hosts or reasons, and 5 connections that were not recorded one by one." || report.Egress.Missed != 5 {
		t.Errorf("notes %q, missed %d", notes, report.Egress.Missed)
	}
}

// TestEgressBinds: an approval of one reach does not cover another.
func TestEgressBinds(t *testing.T) {
	t.Parallel()
	lines := func(change func(*Config), hosts ...string) string {
		b, _, _ := processBench(t, func(c *Config) { strictly(c); change(c) })
		in := object{"argv": []string{"git"}, "read_only": true}
		if hosts != nil {
			in["hosts"] = hosts
		}
		plan := must.Get(b.plan("process.run", in))(t)
		return strings.Join(plan.Binding.Egress, "\n")
	}
	same := func(*Config) {}
	base := lines(same)
	for name, other := range map[string]string{
		"fewer hosts":   lines(same, "api.example.org:443"),
		"offline":       lines(same, []string{}...),
		"a denial less": lines(func(c *Config) { c.Process.Reach.Rules.Deny = nil }),
		"a budget":      lines(func(c *Config) { c.Process.Reach.Budget.Requests = 7 }),
		"an inspection": lines(func(c *Config) { c.Process.Reach.Inspect = nil }),
		"a secret":      lines(func(c *Config) { c.Process.Reach.Secrets = nil }),
	} {
		if other == base {
			t.Errorf("%s: the binding is the same", name)
		}
	}
	if lines(same) != base {
		t.Error("planning twice gives two bindings")
	}
}

// TestViolationsAreInTheNotes: the notes list denied system calls for the model, and the record
// contains every one.
func TestViolationsAreInTheNotes(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, nil)
	r.report.Violations = []tool.Violation{{Syscall: "mount"}, {Syscall: "unshare"}, {Syscall: "mount"}}
	r.report.ViolationsMissed = 7
	r.report.Quarantined = []string{".git/hooks/post-merge"}
	report, result := b.call(context.Background(), "process.run", object{"argv": []string{"git"}, "read_only": true})
	var notes []string
	for _, n := range result["notes"].([]any) {
		notes = append(notes, n.(string))
	}
	want := []string{
		"The program tried mount 2 times, which is not allowed in the sandbox.",
		"The program tried unshare, which is not allowed in the sandbox.",
		"More was denied: 0 other system calls, and 7 attempts that were not recorded one by one.",
		"These protected files are new and were moved out of the workspace: .git/hooks/post-merge",
	}
	if !slices.Equal(notes, want) || len(report.Violations) != 3 || report.ViolationsMissed != 7 {
		t.Errorf("notes %q, report %+v", notes, report)
	}
}

// TestSharedCachesAreDeclared: the binding and the prompt name the caches, and their use ends
// with the run.
func TestSharedCachesAreDeclared(t *testing.T) {
	t.Parallel()
	released := 0
	b, r, _ := processBench(t, func(c *Config) {
		c.Process.Caches = []string{"go"}
		c.Process.OpenCaches = func(workspace string) ([]sandbox.Cache, func(), error) {
			return []sandbox.Cache{{Name: "go", Dir: "/cache/" + workspace}}, func() { released++ }, nil
		}
	})
	in := object{"argv": []string{"git"}, "read_only": true}
	plan := must.Get(b.plan("process.run", in))(t)
	if !strings.Contains(plan.Binding.SandboxProfile, " caches=go ") || !strings.Contains(strings.Join(plan.Preview.Notes, "\n"), "The caches of go are shared") {
		t.Errorf("plan %+v", plan)
	}
	r.during = func() {
		if released != 0 {
			t.Error("the caches were given back while the program ran")
		}
	}
	b.call(context.Background(), "process.run", in)
	if s := r.specs[0]; len(s.Caches) != 1 || s.Caches[0].Dir != "/cache/default" || released != 1 {
		t.Errorf("spec %+v, released %d times", s, released)
	}
}

// TestReachOffline: a program without hosts gets a name service where its sandbox has a network
// namespace. On other rungs an empty reach would be refused as hosts.
func TestReachOffline(t *testing.T) {
	t.Parallel()
	for layer, want := range map[string]bool{sandbox.NetworkNamespace: true, "landlock": false} {
		m := machine{status: sandbox.Status{Layers: []string{layer}}}
		if reach := (network{}).reach(m); (reach != nil) != want || reach != nil && len(reach.Hosts()) > 0 {
			t.Errorf("%s: %+v", layer, reach)
		}
	}
}

// TestForeseenHosts: the hosts that a command names and that policy denies are listed before the run
// and in its result. Controls: allowed hosts, commands that use no remote, and a configuration that
// is too large to be read.
func TestForeseenHosts(t *testing.T) {
	t.Parallel()
	allowed := func(c *Config) {
		c.Process.Reach = egress.Reach{Rules: egress.Rules{Allow: must.Get(egress.ParseRules([]string{"github.com:443"}))(t)}}
	}
	for _, c := range []struct {
		argv   string
		change func(*Config)
		want   string
	}{
		{"git clone https://example.com/x.git", nil, "example.com:443, from an argument"},
		{"git fetch", nil, `github.com:443, from the git remote "origin"`},
		{"git push origin main", nil, `github.com:443, from the git remote "origin"`},
		{"git fetch", allowed, ""},
		{"git clone https://github.com/x.git", allowed, ""},
		{"git status", nil, ""},
		{"tool https://example.com:8443/", allowed, "example.com:8443, from an argument"},
		{"git push large main", nil, ""},
	} {
		b, _, _ := processBench(t, c.change)
		b.write("src/f.txt", "x")
		config := "[remote \"origin\"]\n\turl = https://ann:secret@github.com/a/b.git\n"
		if strings.Contains(c.argv, "large") {
			config = strings.ReplaceAll(config, "origin", "large") + strings.Repeat("#", mostRepository)
		}
		b.write(".git/config", config)
		in := object{"argv": strings.Fields(c.argv), "cwd": "src"}
		plan := must.Get(b.plan("process.run", in))(t)
		report, result := b.call(context.Background(), "process.run", in)
		for where, text := range map[string]string{"preview": strings.Join(plan.Preview.Notes, "\n"), "result": fmt.Sprint(result["notes"])} {
			if strings.Contains(text, "Policy denies hosts") != (c.want != "") || !strings.Contains(text, c.want) || strings.Contains(text, "secret") && c.change == nil {
				t.Errorf("%s, %s: %s", c.argv, where, text)
			}
		}
		if got := strings.Join(plan.DeniedHosts, "\n"); (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied hosts %q", c.argv, got)
		}
		bound := slices.ContainsFunc(plan.Contents, func(f tool.FileAccess) bool { return strings.Contains(string(f.Input), `".git/config"`) })
		if strings.HasPrefix(c.argv, "git") && !bound || report.Outcome != tool.Succeeded {
			t.Errorf("%s: the configuration is among the contents: %t, outcome %s", c.argv, bound, report.Outcome)
		}
	}
}

// TestBoundedForesight: a line of 1,600 git commands reads the configuration once, and the remotes
// of the first 16 are looked up; nothing is read for a caller who has left. Control: of fewer
// commands, all are.
func TestBoundedForesight(t *testing.T) {
	t.Parallel()
	const remotes = 5000
	var config strings.Builder
	for i := range remotes {
		fmt.Fprintf(&config, "[remote \"r%d\"]\nurl = a%d:x\n[url \"https://h%d.example.org/\"]\ninsteadOf = a%d:\n", i, i, i, i)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx                    context.Context
		commands, reads, hosts int
	}{
		"hostile": {t.Context(), 1600, 1, mostGit}, "few": {t.Context(), 3, 1, 3},
		"none": {t.Context(), 0, 0, 0}, "left": {gone, 1600, 0, 0},
	} {
		reads := 0
		commands := make([][]string, c.commands)
		for i := range commands {
			commands[i] = []string{"git", "fetch", fmt.Sprint("r", i)}
		}
		found := network{}.foresee(c.ctx, commands, func() (destination.Repository, string) {
			reads++
			return destination.Parse(config.String(), ""), ""
		})
		if reads != c.reads || len(found.lines()) != c.hosts {
			t.Errorf("%s: read %d times, hosts %v", name, reads, found.lines())
		}
	}
	every := [][]string{{"git", "fetch"}, {"curl", "https://last.example.org"}}
	found := network{}.foresee(t.Context(), every, func() (destination.Repository, string) { return destination.Parse(config.String(), ""), "" })
	if n := len(found.lines()); n != mostForeseen {
		t.Errorf("%d hosts of all remotes", n)
	}
}
