package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// manyPolicies returns n forbids with conditions. Ten of them can match a call of process.run
// by the agent; the others name other tools, servers and users.
func manyPolicies(n int) string {
	var b strings.Builder
	for i := range n {
		scope := fmt.Sprintf(`principal == User::"user-%d", action in Action::"tool.execute", resource`, i)
		switch {
		case i < 10:
			scope = `principal, action == Action::"tool.execute/process.run", resource`
		case i%3 == 0:
			scope = fmt.Sprintf(`principal, action in Action::"tool.execute", resource == Tool::"srv/t%d"`, i%50)
		case i%3 == 1:
			scope = fmt.Sprintf(`principal, action == Action::"tool.execute/srv/t%d", resource`, i%50)
		}
		fmt.Fprintf(&b, `@id("p%d") forbid(%s)
when { context.risk > 90 && context.capabilities.contains("network") && context has host && context.host like "*.example%d.com" };
`, i, scope, i)
	}
	return b.String()
}

func manyOptions(n int) policytest.Options {
	o := policytest.Options{Policies: manyPolicies(n)}
	for i := range 50 {
		t := policytest.Fetch
		t.Name = fmt.Sprintf("srv/t%d", i)
		o.Tools = append(o.Tools, t)
	}
	return o
}

// fullRequest returns a request with every fact set. Its risk makes the ten matching policies
// evaluate their whole condition.
func fullRequest() policy.Request {
	r := policytest.Request("process.run", `{"argv":["git","status","--short"],"timeout_ms":5000}`)
	r.Capabilities = []tool.Capability{tool.ProcessExec, tool.Network}
	r.Facts = tool.Facts{
		Workspace: "default", Path: "src/main.go", Host: "api.example.com", Domain: "example.com", Port: 443,
		Method: "GET", Risk: 95, SandboxTier: "c", SandboxLevel: "strict", EgressMode: "strict",
		Exec: &tool.ExecFacts{Basename: "git", Path: "/usr/bin/git", SHA256: strings.Repeat("ab", 32)},
	}
	r.SessionFacts = tool.SessionFacts{CallsInRun: 7, ToolsUsed: []string{"fs.read", "process.run"}, BytesOut: 4096}
	return r
}

// BenchmarkEvaluate measures goal 9 of performance.md: a decision with all facts under 1,000
// and 10,000 policies, of which 10 apply.
func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		o := manyOptions(n)
		allowed := o
		allowed.Policies += `@id("waived") @waives("approval: benchmark")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`
		b.Run(fmt.Sprintf("allow/%d", n), func(b *testing.B) { benchmark(b, allowed, policy.Allow) })
		if n == 1000 {
			b.Run(fmt.Sprintf("ask/%d", n), func(b *testing.B) { benchmark(b, o, policy.Ask) })
			absolute := o
			absolute.Policies += `@id("never") forbid(principal, action == Action::"tool.execute/process.run", resource);`
			b.Run(fmt.Sprintf("deny/%d", n), func(b *testing.B) { benchmark(b, absolute, policy.Deny) })
		}
	}
}

func benchmark(b *testing.B, o policytest.Options, want policy.Effect) {
	engine := policytest.Engine(b, o)
	r := fullRequest()
	b.ReportAllocs()
	for b.Loop() {
		v, err := engine.Evaluate(b.Context(), r, nil)
		if err != nil || v.Effect() != want {
			b.Fatalf("%v, %v (%v), want %v", err, v.Effect(), v.Errors(), want)
		}
	}
}

// BenchmarkEvaluateDefaults measures a call that the embedded policies allow, with the facts
// that most calls have.
func BenchmarkEvaluateDefaults(b *testing.B) {
	engine := policytest.Engine(b, policytest.Options{})
	r := policytest.Request("fs.read", `{"path":"src/main.go"}`)
	r.Facts = tool.Facts{Workspace: "default", Path: "src/main.go", PathFolded: "src/main.go", HardLinks: 1, SandboxTier: "builtin", SandboxLevel: "strict"}
	b.ReportAllocs()
	for b.Loop() {
		if v, err := engine.Evaluate(b.Context(), r, nil); err != nil || v.Effect() != policy.Allow {
			b.Fatal(v.Effect(), v.Errors(), err)
		}
	}
}

// BenchmarkAuthorize measures one access rule.
func BenchmarkAuthorize(b *testing.B) {
	set := policytest.Set(b, policytest.Options{})
	r := policy.AccessRequest{
		Caller:     access.Caller{Principal: policytest.Alice, OnBehalfOf: policytest.Alice, Surface: access.SurfaceCLI},
		Permission: access.PermJournalRead,
	}
	b.ReportAllocs()
	for b.Loop() {
		if !set.Access().Authorize(r).Allowed {
			b.Fatal("denied")
		}
	}
}

// BenchmarkLoad measures loading and checking a set.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{0, 1000} {
		cfg := policytest.Config(manyOptions(n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := policy.Load(cfg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkExplain measures an explanation under 1,000 policies, of which ten match the call.
func BenchmarkExplain(b *testing.B) {
	set := policytest.Set(b, manyOptions(1000))
	denied := fullRequest()
	denied.Facts.Host = "www.example3.com"
	for name, r := range map[string]policy.Request{"deny": denied, "ask": fullRequest()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if e := explain.Verdict(set, r, policy.Approval{}, nil); len(e.Flips) == 0 {
					b.Fatal(e.Summary)
				}
			}
		})
	}
}
