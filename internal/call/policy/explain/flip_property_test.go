package explain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// fact is one fact of a call: conditions of policies about it, and a small domain of values,
// each as a change of the request.
type fact struct {
	questions []string
	values    []func(*policy.Request)
	// person reports whether a person can change the fact.
	person bool
}

func domain[T any](set func(*policy.Request, T), values ...T) []func(*policy.Request) {
	var out []func(*policy.Request)
	for _, v := range values {
		out = append(out, func(r *policy.Request) { set(r, v) })
	}
	return out
}

// asked is the vocabulary of generated policies.
var asked = []fact{
	{[]string{"context.risk > 50", "context.risk < 20", "context.risk >= 90", "context.risk == 30", "context.risk * 2 - 10 > 100"},
		domain(func(r *policy.Request, v int) { r.Facts.Risk = v }, 0, 15, 30, 40, 60, 95), false},
	{[]string{"context.session.calls_in_run >= 25", "context.session.calls_in_run + context.session.in_flight > 30"},
		domain(func(r *policy.Request, v int) { r.SessionFacts.CallsInRun = v }, 0, 10, 24, 25, 40), false},
	{[]string{"context.protected", "context.protected == false"},
		domain(func(r *policy.Request, v bool) { r.Facts.Protected = v }, true, false), false},
	{[]string{"context.session.tainted"},
		domain(func(r *policy.Request, v bool) { r.SessionFacts.Tainted = v }, true, false), false},
	{[]string{"context has host && context.host like \"*.example.com\"", "context has host && context.host == \"evil.org\"",
		"context has host && !(context.host like \"*.org\")", "context has domain && context.domain == \"example.com\""},
		domain(func(r *policy.Request, v string) { _ = setFact(policy.FactNamed("host"), r, types.String(v)) }, "a.example.com", "evil.org", "b.net", "good.org"), true},
	{[]string{"context has path && context.path like \"src/*\"", "context has path && context.path like \"*.pem\"",
		"context has path && context.path == \"Makefile\"", "context has path"},
		domain(func(r *policy.Request, v string) { r.Facts.Path = v }, "src/a.go", "src/k.pem", "Makefile", "k.pem", "docs/x"), true},
	{[]string{"context has path_folded && context.path_folded like \"src/*\"", "context has path_folded && !(context.path_folded like \"*.env\")",
		"context has path_folded && context.path_folded == \"makefile\"", "context has path_folded"},
		domain(func(r *policy.Request, v string) { r.Facts.Path = v }, "SRC/a.go", "app/.ENV", "Makefile", "docs/x"), true},
	{[]string{"context.hard_links > 1", "context.hard_links == 0"},
		domain(func(r *policy.Request, v int) { r.Facts.HardLinks = v }, 0, 1, 2, 5), false},
	{[]string{"context has exec && context.exec.basename == \"git\"", "context has exec && context.exec.inline_code",
		"context has exec && [\"go\", \"make\"].contains(context.exec.basename)"},
		domain(func(r *policy.Request, v tool.ExecFacts) { r.Facts.Exec = &v }, tool.ExecFacts{Basename: "git"}, tool.ExecFacts{Basename: "sh", InlineCode: true},
			tool.ExecFacts{Basename: "make"}), true},
	{[]string{"context.args.argv.contains(\"push\")", "context.args.argv.containsAll([\"a\", \"b\"])", "context.args.argv.containsAny([\"x\", \"push\"])",
		"context.args.argv.isEmpty()"},
		domain(func(r *policy.Request, v string) { r.Args = json.RawMessage(v) },
			`{"argv":["push"],"limit":5}`, `{"argv":["a","b"],"limit":5}`, `{"argv":[],"limit":5}`, `{"argv":["x"],"limit":5}`, `{"argv":["z"],"limit":5}`), true},
	{[]string{"context.args has limit && context.args.limit > 100", "context.args has limit", "context.args has mode && context.args.mode == \"fast\""},
		domain(func(r *policy.Request, v string) { r.Args = json.RawMessage(v) },
			`{"argv":["z"]}`, `{"argv":["z"],"limit":5}`, `{"argv":["z"],"limit":500}`, `{"argv":["z"],"mode":"fast"}`, `{"argv":["z"],"mode":"slow"}`), true},
	{[]string{"context.capabilities.contains(\"network\")", "context.capabilities == [\"process_exec\"]"},
		domain(func(r *policy.Request, v []tool.Capability) { r.Capabilities = v }, nil, []tool.Capability{tool.Network}, []tool.Capability{tool.ProcessExec}), false},
	{[]string{"context.egress.mode == \"none\"", "context.egress.mode != \"none\""},
		domain(func(r *policy.Request, v string) { r.Facts.EgressMode = v }, "none", "strict"), false},
	{[]string{"context.sandbox.layers.contains(\"landlock\")", "context.sandbox.layers.containsAll([\"landlock\", \"seccomp\"])"},
		domain(func(r *policy.Request, v []string) { r.Facts.SandboxLayers = v }, nil, []string{"landlock"}, []string{"landlock", "seccomp"}), false},
	{[]string{"context.sandbox.rung == \"full\"", "context.sandbox.limits like \"cgroup*\""},
		domain(func(r *policy.Request, v string) { r.Facts.SandboxRung, r.Facts.SandboxLimits = v, "cgroup_v2" }, "full"), false},
	{[]string{"context.workspace_mode == \"copy_on_write\"", "context.workspace_mode != \"direct\""},
		domain(func(r *policy.Request, v string) { r.Facts.WorkspaceMode = v }, "copy_on_write", "direct"), false},
	{[]string{"context.sandbox.tier == \"c\"", "context.sandbox.tier != \"b\""},
		domain(func(r *policy.Request, v string) { r.Facts.SandboxTier = v }, "b", "c", "a"), false},
	{[]string{"context.now < datetime(\"2026-03-02T09:00:00Z\")", "context.now.toTime() >= duration(\"18h\")"},
		domain(func(r *policy.Request, v time.Time) { r.Time = v }, at("2026-03-01T08:00:00Z"), at("2026-03-05T12:00:00Z"), at("2026-03-05T19:00:00Z")), true},
	{[]string{"context has workspace && context.workspace == Workspace::\"main\""},
		domain(func(r *policy.Request, v string) { r.Facts.Workspace = v }, "main", "other"), true},
	{questions: []string{"principal in Role::\"security\"", "resource.destructive", "context.egress.hosts.containsAny([\"a\"])"}},
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// generator writes policies over facts, and matching calls.
type generator struct{ r *rand.Rand }

func (g generator) question() string {
	f := asked[g.r.IntN(len(asked))]
	return f.questions[g.r.IntN(len(f.questions))]
}

func (g generator) condition(depth int) string {
	if depth == 0 {
		return "(" + g.question() + ")"
	}
	switch g.r.IntN(6) {
	case 0:
		return g.condition(depth-1) + " && " + g.condition(depth-1)
	case 1:
		return "(" + g.condition(depth-1) + " || " + g.condition(depth-1) + ")"
	case 2:
		return "!(" + g.condition(depth-1) + ")"
	case 3:
		return "(if " + g.condition(depth-1) + " then " + g.condition(depth-1) + " else " + g.condition(depth-1) + ")"
	default:
		return "(" + g.question() + ")"
	}
}

func (g generator) policies() string {
	var b strings.Builder
	for i := range 1 + g.r.IntN(5) {
		effect, clause := "forbid", []string{"when", "unless"}[g.r.IntN(2)]
		if g.r.IntN(3) == 0 {
			effect = "permit"
		}
		approved := ""
		switch {
		case g.r.IntN(3) > 0:
		case effect == "permit":
			approved = " when { context.approval.approvers >= 2 }"
		default:
			approved = " unless { context.approval.granted }"
		}
		if effect == "permit" {
			approved += []string{` when { context.egress.mode != "none" }`, ` when { context.egress.mode == "none" }`}[g.r.IntN(2)]
		}
		scope := []string{"principal", "principal is Agent", `principal in Role::"agent"`}[g.r.IntN(3)]
		fmt.Fprintf(&b, "@id(\"p%d\") @waives(\"approval: test\")\n%s(%s, action == Action::\"tool.execute/t\", resource) %s { %s }%s;\n",
			i, effect, scope, clause, g.condition(1+g.r.IntN(3)), approved)
	}
	return b.String()
}

func (g generator) request() policy.Request {
	r := policy.Request{
		Caller: access.Caller{Principal: access.Agent("bot"), OnBehalfOf: access.User("ann"), Surface: access.SurfaceCLI},
		Tool:   "t", Args: json.RawMessage(`{"argv":["z"]}`), Time: at("2026-03-05T12:00:00Z"),
		Facts: tool.Facts{Workspace: "main", SandboxTier: "c"},
	}
	for _, f := range asked {
		if len(f.values) > 0 && g.r.IntN(2) == 0 {
			f.values[g.r.IntN(len(f.values))](&r)
		}
	}
	return r
}

func generatedConfig(text string) policy.Config {
	return policy.Config{
		Sources: []policy.Source{{Name: "g.cedar", Text: text}},
		Tools: []tool.Descriptor{{
			Name: "t", Capabilities: []tool.Capability{tool.ProcessExec},
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["argv"],"properties":{` +
				`"argv":{"type":"array","items":{"type":"string"}},"limit":{"type":"integer","minimum":0},` +
				`"mode":{"type":"string","enum":["fast","slow"]}}}`),
		}},
		Roles: []access.Role{"security"}, Workspaces: []string{"main", "other"},
		Members: []access.Member{
			{Principal: access.User("ann"), Roles: []access.Role{access.RoleOwner}},
			{Principal: access.User("bea"), Roles: []access.Role{access.RoleOperator}},
			{Principal: access.Agent("bot"), Owner: access.User("ann"), Roles: []access.Role{access.RoleAgent}},
		},
	}
}

// TestFlipsOfGeneratedPolicies generates random policies and calls. It applies every flip,
// builds the resulting set from its sources, and evaluates the call again. If some value of one
// fact reverses a denial, which a search over all domains finds, a flip of one step must be
// found.
func TestFlipsOfGeneratedPolicies(t *testing.T) {
	t.Parallel()
	var c tallied
	for seed := range uint64(12) {
		c.try(t, seed)
	}
	t.Logf("%d denials and asks: %d with a flip, %d of them with one that changes no policy; %d of %d with a change of one fact were found so",
		c.turned, c.flipped, c.ownFlip, c.singleFound, c.single)
	if c.turned < 50 || c.single < 10 || c.flipped < c.turned {
		t.Errorf("of %d denials and asks only %d have a flip", c.turned, c.flipped)
	}
}

// FuzzFlips runs the property of TestFlipsOfGeneratedPolicies for any seed.
func FuzzFlips(f *testing.F) {
	for _, seed := range []uint64{269, 1000} { // 269: the value avoids one forbid and matches another
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		var c tallied
		c.try(t, seed)
	})
}

type tallied struct{ turned, flipped, ownFlip, single, singleFound int }

func (c *tallied) try(t *testing.T, seed uint64) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 7))}
	cfg := generatedConfig(g.policies())
	s, err := policy.Load(cfg)
	if err != nil {
		return // for example because of a condition that never holds
	}
	for range 8 {
		r := g.request()
		v := s.Evaluate(r, nil)
		if v.Effect() == policy.Allow {
			continue
		}
		c.turned++
		e := Verdict(s, r, policy.Approval{}, nil)
		if len(e.Flips) > 0 {
			c.flipped++
		} else {
			t.Logf("seed %d: no flip: %s", seed, e.Summary)
		}
		if slices.ContainsFunc(e.Flips, changesNoPolicy) {
			c.ownFlip++
		}
		for _, f := range e.Flips {
			checkFlip(t, seed, s, r, v, f)
		}
		c.alone(t, seed, s, r, v, e)
	}
}

func changesNoPolicy(f Flip) bool {
	return !slices.ContainsFunc(f.Steps, func(step Step) bool { return step.Kind == StepPolicy })
}

// checkFlip applies a flip, loads the result, and evaluates the call.
func checkFlip(t *testing.T, seed uint64, s *policy.Set, r policy.Request, was policy.Verdict, f Flip) {
	t.Helper()
	for _, step := range f.Steps {
		if step.Kind == StepPolicy && strings.Contains(step.Becomes, "\n") {
			t.Errorf("seed %d: the permit is on several lines, which are escaped where it is shown: %q", seed, step.Becomes)
		}
	}
	cfg := s.View().Config()
	to, err := f.Apply(Scenario{Config: cfg, Request: r})
	if err != nil {
		t.Errorf("seed %d: %s: %v", seed, f.Summary, err)
		return
	}
	if slices.ContainsFunc(f.Steps, func(step Step) bool { return step.Kind == StepEntity || step.Kind == StepPolicy }) {
		if s, err = policy.Load(to.Config); err != nil {
			t.Errorf("seed %d: %s: the set no longer loads: %v", seed, f.Summary, err)
			return
		}
	}
	got := s.Evaluate(to.Request, nil).Effect()
	if s.Judge(to.Request, to.Approval).Allowed {
		got = policy.Allow
	}
	if got != f.Verdict || got == was.Effect() || got == policy.Deny {
		t.Errorf("seed %d: %s: the verdict was %v and became %v\n%s", seed, f.Summary, was.Effect(), got, cfg.Sources[0].Text)
	}
}

// alone searches all domains for one fact that reverses a denial.
func (c *tallied) alone(t *testing.T, seed uint64, s *policy.Set, r policy.Request, v policy.Verdict, e Explanation) {
	t.Helper()
	if v.Effect() != policy.Deny || !oneFactTurns(s, r) {
		return
	}
	c.single++
	if slices.ContainsFunc(e.Flips, func(f Flip) bool { return len(f.Steps) == 1 && changesNoPolicy(f) }) {
		c.singleFound++
		return
	}
	t.Errorf("seed %d: one fact turns this, and no flip says so: %s\n%+v\n%s", seed, e.Summary, r, s.View().Config().Sources[0].Text)
}

func oneFactTurns(s *policy.Set, r policy.Request) bool {
	for _, f := range asked {
		if !f.person {
			continue
		}
		for _, set := range f.values {
			other := r
			set(&other)
			if steps(r, other) == 1 && s.Evaluate(other, nil).Effect() != policy.Deny {
				return true
			}
		}
	}
	return false
}

// steps counts the places in which two requests of the domains differ. Some values of a domain
// change two places.
func steps(a, b policy.Request) int {
	n := 0
	count := func(differ bool) {
		if differ {
			n++
		}
	}
	var x, y map[string]any
	_ = json.Unmarshal(a.Args, &x)
	_ = json.Unmarshal(b.Args, &y)
	for _, name := range []string{"argv", "limit", "mode"} {
		count(fmt.Sprint(x[name]) != fmt.Sprint(y[name]))
	}
	p, q := tool.ExecFacts{}, tool.ExecFacts{}
	if a.Facts.Exec != nil {
		p = *a.Facts.Exec
	}
	if b.Facts.Exec != nil {
		q = *b.Facts.Exec
	}
	count(p.Basename != q.Basename)
	count(p.InlineCode != q.InlineCode)
	a.Args, b.Args, a.Facts.Exec, b.Facts.Exec = nil, nil, nil, nil
	count(fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b))
	return n
}

// TestNearestPermitOutOfScope omits the default permits, because they are always nearer.
func TestNearestPermitOutOfScope(t *testing.T) {
	t.Parallel()
	cases := []struct{ policies, want string }{
		{`@id("a") permit(principal in Role::"security", action, resource);`, `a (g.cedar:1): principal is not in Role::"security"`},
		{`@id("a") permit(principal == User::"ann", action, resource);
@id("b") permit(principal in Role::"security", action, resource);`, `b (g.cedar:2): principal is not in Role::"security"`},
		{`@id("a") permit(principal is User, action, resource) when { context.protected };
@id("b") permit(principal, action, resource) when { context.protected && context.session.tainted && context.risk == 0 };
@id("c") permit(principal, action == Action::"run.start", resource);`,
			`b (g.cedar:2): context.protected is false; context.session.tainted is false`},
		{`@id("a") permit(principal is User, action, resource == Tool::"t") unless { context.risk == 0 };`,
			`a (g.cedar:1): principal is not of type User; context.risk == 0 is true`},
	}
	for _, c := range cases {
		view, _ := policy.Examine(generatedConfig(c.policies))
		r := generator{rand.New(rand.NewPCG(1, 1))}.request()
		r.Facts = tool.Facts{SandboxTier: "c"}
		r.SessionFacts = tool.SessionFacts{}
		call, _ := view.Call(r, policy.Approval{})
		seen := &sight{view: view, call: call, env: call.Env}
		own := slices.DeleteFunc(view.Policies(), func(p *expr.Policy) bool { return p.Builtin })
		if got := seen.nearestOf(own); got.String() != c.want {
			t.Errorf("%s\nnearest %s, want %s", c.policies, got, c.want)
		}
	}
}
