package builtin

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
)

// networked sets an egress mode with a world of its own.
func networked(mode egress.Mode, rules ...string) func(*Config) {
	return func(c *Config) {
		allowed, err := egress.ParseRules(rules)
		if err != nil {
			panic(err)
		}
		c.Process.Egress, c.Process.AllowedHosts = mode, allowed
		c.Process.Resolver = names{"api.example.org": {"93.184.216.34"}, "inside.example.org": {"10.0.0.7"}, "meta.example.org": {"169.254.169.254"}, "other.test": {"93.184.216.35"}}
		c.Process.Interfaces = func() ([]netip.Addr, error) { return nil, nil }
	}
}

func TestHostsOfAProgram(t *testing.T) {
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
		{"a name of a private address", egress.Preflight, []string{"inside.example.org:443"}, reason.EgressDenied, nil},
		{"a name of the metadata service", egress.Preflight, []string{"meta.example.org:80"}, reason.EgressDenied, nil},
		{"an address that none names", egress.Preflight, []string{"10.0.0.8:80"}, reason.EgressDenied, nil},
		{"without a port", egress.Preflight, []string{"api.example.org"}, reason.HostInvalid, nil},
		{"a name in disguise", egress.Preflight, []string{"api.example.org@other.test:443"}, reason.HostInvalid, nil},
		{"strict", egress.Strict, []string{"api.example.org:443"}, reason.EgressDenied, nil},
		{"none", egress.None, []string{"api.example.org:443"}, reason.InvalidInput, nil},
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
			if err != nil {
				t.Fatal(err)
			}
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

// TestNetworkIsSaid: facts, prompt, risk and attestation agree about the network.
func TestNetworkIsSaid(t *testing.T) {
	for mode, want := range map[egress.Mode]struct {
		attested, level, summary, note string
		risk                           int
	}{
		egress.Strict:    {"strict", sandbox.LevelStrict, ", offline, ", "", riskProcess},
		egress.Preflight: {"preflight", sandbox.LevelPreflight, "its hosts checked before the start only", "nothing holds the program to them", riskProcess + riskNetwork},
		egress.None:      {"unrestricted", sandbox.LevelNone, "the unrestricted network of the machine", "nothing bounds what it sends", riskProcess + riskNetwork},
	} {
		b, r, _ := processBench(t, networked(mode))
		layers := []string{"network_namespace", "seccomp"}
		if mode != egress.Strict {
			layers = layers[1:]
		}
		r.report.Requested, r.report.Applied = layers, layers
		in := object{"argv": []string{"git"}, "read_only": true}
		plan, err := b.plan("process.run", in)
		if err != nil {
			t.Fatal(err)
		}
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

// TestViolationsAreNotes: a model learns what its program tried in vain, and the
// record has every one.
func TestViolationsAreNotes(t *testing.T) {
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
		"These protected files are new and were put aside, out of the workspace: .git/hooks/post-merge",
	}
	if !slices.Equal(notes, want) || len(report.Violations) != 3 || report.ViolationsMissed != 7 {
		t.Errorf("notes %q, report %+v", notes, report)
	}
}

// TestCachesAreSharedKnowingly: the binding and the prompt name the caches, and
// their use ends with the run.
func TestCachesAreSharedKnowingly(t *testing.T) {
	released := 0
	b, r, _ := processBench(t, func(c *Config) {
		c.Process.Caches = []string{"go"}
		c.Process.OpenCaches = func(workspace string) ([]sandbox.Cache, func(), error) {
			return []sandbox.Cache{{Name: "go", Dir: "/cache/" + workspace}}, func() { released++ }, nil
		}
	})
	in := object{"argv": []string{"git"}, "read_only": true}
	plan, err := b.plan("process.run", in)
	if err != nil {
		t.Fatal(err)
	}
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
