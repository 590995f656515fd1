package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// world returns a configuration with several entities of every type that a scope can name.
func world() Config {
	cfg := Config{
		Workspaces: []string{"default"}, Roles: []access.Role{"security"},
		Snapshot: Snapshot{AllowedTools: []string{"t0", "srv/t1", "srv/t2"}},
	}
	for i, name := range []string{"t0", "srv/t1", "srv/t2", "other/t3"} {
		cfg.Tools = append(cfg.Tools, tool.Descriptor{
			Name: name, Destructive: i%2 == 1, Capabilities: tool.Capabilities[i : i+1],
		})
	}
	for i, name := range []string{"ann", "bea", "cem"} {
		roles := []access.Role{access.BuiltinRoles[i], "security"}[:1+i%2]
		cfg.Members = append(cfg.Members,
			access.Member{Principal: access.User(name), Roles: roles},
			access.Member{Principal: access.Agent(name), Owner: access.User(name), Roles: []access.Role{access.RoleAgent}})
	}
	return cfg
}

// writer writes random policies over world.
type writer struct{ r *rand.Rand }

func (w writer) pick(list ...string) string { return list[w.r.IntN(len(list))] }

func (w writer) policy(id string) string {
	return fmt.Sprintf("@id(%q) %s(%s, %s, %s)%s;\n", id, w.pick("permit", "forbid"),
		w.pick("principal", "principal", `principal == User::"ann"`, `principal == Agent::"bea"`, "principal is User",
			`principal in Role::"security"`, `principal in Role::"owner"`, `principal is Agent in PrincipalSet::"allowed"`,
			`principal in User::"cem"`),
		w.pick("action", `action in Action::"tool.execute"`, `action == Action::"tool.execute/t0"`,
			`action == Action::"tool.execute/srv/t1"`, `action in Action::"tool.execute/srv/t2"`,
			`action in [Action::"tool.execute", Action::"tool.execute/t0"]`,
			`action in [Action::"tool.execute/other/t3", Action::"tool.execute/t0"]`),
		w.pick("resource", "resource", `resource == Tool::"t0"`, `resource in ToolSet::"allowed"`, `resource in Server::"srv"`,
			"resource is Tool", `resource is Tool in Server::"other"`, `resource in Tool::"srv/t2"`),
		w.conditions())
}

func (w writer) conditions() string {
	var b strings.Builder
	for range w.r.IntN(3) {
		fmt.Fprintf(&b, " %s { %s %s %s }", w.pick("when", "unless"), w.atom(), w.pick("&&", "||"), w.atom())
	}
	return b.String()
}

func (w writer) atom() string {
	return w.pick("context.risk > 50", "context.risk * 4611686018427387904 > 0", "context.protected", "context.session.tainted",
		`context.capabilities.contains("network")`, `context has host && context.host like "*.com"`,
		`principal in Role::"security"`, "context.approval.granted", "context.approval.approvers >= 2",
		"context.approval.by_role.security >= 1", `context.sandbox.tier == "c"`, "!(context has exec)",
		"context.exec.inline_code", "context has exec.inline_code && context.exec.inline_code", `context["host"] == "a.com"`,
		"[context].contains(context)", "context == context", `context.session.tools_used.isEmpty()`, "context.now.toTime() < duration(\"1h\")",
		`context has channel && context.channel == Channel::"x"`, "context has args.x", `context.args_rest == ""`,
		`(if context.protected then context else context).session.tainted`, "context.no_such == 1", "context has no_such")
}

// unchecked builds a set from policies without checking them, so that errors at run time occur
// too. The parts that it shares with base do not depend on policies.
func unchecked(t testing.TB, base *Set, text string) *Set {
	t.Helper()
	r := &rules{vocab: base.rules.vocab, dir: base.rules.dir, byID: make(map[cedar.PolicyID]*compiled)}
	s := &Set{rules: r, evaluator: &evaluator{rules: r, voting: base.voting}, voting: base.voting}
	policies, found := expr.Parse("f", text, false)
	if finding.HasErrors(found) {
		t.Fatalf("parsing: %v", found)
	}
	for _, p := range policies {
		r.addPolicy(compile(p))
	}
	r.index = buildIndex(r.policies)
	return s
}

func randomRequest(r *rand.Rand, cfg Config) Request {
	who := cfg.Members[r.IntN(len(cfg.Members))]
	out := Request{
		Caller: access.Caller{Principal: who.Principal, Surface: access.SurfaceCLI}, Tool: cfg.Tools[r.IntN(len(cfg.Tools))].Name,
		Facts:        tool.Facts{Risk: r.IntN(100), Protected: r.IntN(2) == 0, SandboxTier: []string{"b", "c"}[r.IntN(2)]},
		SessionFacts: tool.SessionFacts{Tainted: r.IntN(2) == 0},
	}
	if r.IntN(2) == 0 {
		out.Facts.Host = "a.com"
		out.Capabilities = []tool.Capability{tool.Network}
	}
	if r.IntN(2) == 0 {
		out.Facts.Exec = &tool.ExecFacts{Basename: "git", InlineCode: r.IntN(2) == 0}
		out.Facts.Path, out.Facts.Port, out.SkillID = "a/b", 443, "s"
	}
	if r.IntN(2) == 0 {
		out.Channel, out.Args = "x", json.RawMessage(`{"x":1}`)
		out.SessionFacts.ToolsUsed = []string{"t0"}
	}
	if r.IntN(8) == 0 {
		out.Caller.Principal = access.Principal{Kind: access.KindService, Name: "stranger"}
	}
	return out
}

// FuzzIndex compares two decisions. One uses the candidates of the scope index and only the
// context that they read. The other uses the plain authorizer over all policies and the whole
// validated context. Decision, determining policies and errors must be equal.
func FuzzIndex(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, 5+uint8(i))
	}
	cfg := world()
	base, _ := build(cfg, nil)
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := writer{r}
		var text strings.Builder
		for i := range int(n % 40) {
			text.WriteString(w.policy(fmt.Sprintf("p%d", i)))
		}
		s := unchecked(t, base, text.String())
		for range 20 {
			compare(t, s, randomRequest(r, cfg), r)
		}
	})
}

func compare(t *testing.T, s *Set, r Request, rnd *rand.Rand) {
	t.Helper()
	c, refused := s.evaluator.prepare(&r)
	if refused != nil {
		t.Fatal(refused.message)
	}
	ballots := make([]ballot, rnd.IntN(3))
	for i := range ballots {
		ballots[i] = everywhere().voter(i, s.rules.vocab.Roles[rnd.IntN(len(s.rules.vocab.Roles))])
	}
	facts := s.voting.facts(access.Principal{}, ballots, false)
	whole := c.contextOf(allAttributes)
	whole["approval"] = facts
	req := c.req
	req.Context = types.NewRecord(whole)
	if err := s.rules.vocab.Check.Request(req); err != nil {
		t.Fatalf("the request does not fit the schema: %v", err)
	}
	decision, diag := cedar.Authorize(candidates(s.rules.policies), c.entities, req)
	want, got := s.rules.judge(decision, diag), c.under(facts)
	if got.allowed != want.allowed || !slices.Equal(got.errors, want.errors) ||
		fmt.Sprint(describe(got.determining)) != fmt.Sprint(describe(want.determining)) {
		t.Errorf("indexed %+v\nplain %+v\nrequest %+v", got, want, r)
	}
}

// TestIndexNarrows verifies that the index excludes policies; otherwise FuzzIndex would compare
// identical evaluations.
func TestIndexNarrows(t *testing.T) {
	t.Parallel()
	base, _ := build(world(), nil)
	s := unchecked(t, base, `permit(principal == User::"ann", action, resource); permit(principal == User::"bea", action, resource);`)
	c, _ := s.evaluator.prepare(&Request{Caller: access.Caller{Principal: access.User("ann")}, Tool: "t0"})
	if len(c.found) != 1 || c.found[0] != s.rules.policies[0] {
		t.Errorf("found %d of 2 policies, want the first alone", len(c.found))
	}
	// A broken index is detected: remove the policy that it found.
	c.found = nil
	if c.under(s.voting.noApproval).allowed {
		t.Error("a call is allowed although no policy was found")
	}
}
