package explain_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func explained(t testing.TB, policies string, r policy.Request) explain.Explanation {
	t.Helper()
	return explain.Verdict(policytest.Set(t, policytest.Options{Policies: policies, Tools: []tool.Descriptor{write}}), r, policy.Approval{}, nil)
}

// policyNamed returns one policy of an explanation.
func policyNamed(t testing.TB, e explain.Explanation, id string) explain.Policy {
	t.Helper()
	for _, p := range e.Policies {
		if p.ID == id {
			return p
		}
	}
	t.Fatalf("%s is not explained", id)
	return explain.Policy{}
}

// written formats an explained conjunct on one line, with its parts in brackets.
func written(c explain.Conjunct) string {
	out := fmt.Sprintf("%s=%s", c.Text, c.Outcome)
	for _, v := range c.Values {
		out += fmt.Sprintf(" %s:%s", v.Path, v.Value)
	}
	if len(c.Parts) > 0 {
		var parts []string
		for _, p := range c.Parts {
			parts = append(parts, written(p))
		}
		out += " [" + strings.Join(parts, " | ") + "]"
	}
	return out
}

func TestExplainedConjuncts(t *testing.T) {
	t.Parallel()
	git := runs("git", `["git","push"]`, func(r *policy.Request) { r.Facts.Risk = 60 })
	cases := []struct{ condition, want string }{
		{`when { context.risk > 50 && context.protected }`,
			`context.risk > 50=true context.risk:60; context.protected=false context.protected:false`},
		{`when { context.protected && context.risk > 50 }`,
			`context.protected=false context.protected:false; context.risk > 50=skipped context.risk:60`},
		{`when { context has host && context.host like "*.org" }`,
			`context has host=false context.host:(absent); context.host like "*.org"=skipped context.host:(absent)`},
		{`when { context.protected || (context.risk > 50 && !context.session.tainted) || context.risk == 1 }`,
			`context.protected || (context.risk > 50 && !context.session.tainted) || context.risk == 1=true [` +
				`context.protected=false context.protected:false | ` +
				`context.risk > 50 && !context.session.tainted=true [context.risk > 50=true context.risk:60 | ` +
				`!context.session.tainted=true [context.session.tainted=false context.session.tainted:false]] | ` +
				`context.risk == 1=skipped context.risk:60]`},
		{`when { if context has exec then context.exec.basename == "git" else context.protected }`,
			`if context has exec then context.exec.basename == "git" else context.protected=true [` +
				`context has exec=true context.exec:{"basename":"git", "env":[], "in_workspace":false, "inline_code":false, "is_interpreter":false, "is_shell":false, "origin":"", "path":"/usr/bin/git", "sha256":"", "shebang":"", "starts":[]} | ` +
				`context.exec.basename == "git"=true context.exec.basename:"git" | context.protected=skipped context.protected:false]`},
		{`when { [ "a" , "b" ].contains(context.sandbox["tier"]) } unless { context.approval.granted }`,
			`[ "a" , "b" ].contains(context.sandbox["tier"])=false context.sandbox.tier:"c"; ` +
				`context.approval.granted=skipped context.approval.granted:false`},
		{`when { /* why */ context.egress.hosts.isEmpty() // none
			&& principal in Role::"agent" && resource.destructive && principal is Agent && principal has owner }`,
			`context.egress.hosts.isEmpty()=true context.egress.hosts:[]; principal in Role::"agent"=true principal:Agent::"coder"; ` +
				`resource.destructive=true resource.destructive:true; principal is Agent=true principal:Agent::"coder"; ` +
				`principal has owner=true principal.owner:User::"alice"`},
		{`when { context has exec.basename && (context.args.argv.containsAll(["git"])) }`,
			`context has exec.basename=true context.exec:{"basename":"git", "env":[], "in_workspace":false, "inline_code":false, "is_interpreter":false, "is_shell":false, "origin":"", "path":"/usr/bin/git", "sha256":"", "shebang":"", "starts":[]} ` +
				`context.exec.basename:"git"; context.args.argv.containsAll(["git"])=true context.args.argv:["git", "push"]`},
		{`unless { context.now < datetime("2026-03-02") }`,
			`context.now < datetime("2026-03-02")=false context.now:datetime("2026-03-02T10:00:00.000Z")`},
	}
	for _, c := range cases {
		p := policyNamed(t, explained(t, "@id(\"p\")\nforbid(principal, action == Action::\"tool.execute/process.run\", resource)\n"+c.condition+";", git), "p")
		var got []string
		for _, conjunct := range p.Conjuncts {
			got = append(got, written(conjunct))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.condition, text, c.want)
		}
	}
}

func TestExplainedPolicyAndPlaces(t *testing.T) {
	t.Parallel()
	e := explained(t, `
@id("p") @reason("because") @remedy("do so")
forbid(principal, action in Action::"tool.execute", resource)
when {
  "é" != "e" &&
  (context.risk > 50)
};
@id("others") forbid(principal == User::"alice", action, resource);`, runs("git", `["git"]`, func(r *policy.Request) { r.Facts.Risk = 60 }))
	p := policyNamed(t, e, "p")
	if p.File != "test.cedar" || p.Line != 2 || p.Effect != "forbid" || !p.Determining || p.Outcome != explain.OutcomeSatisfied ||
		p.Reason != "because" || p.Remedy != "do so" {
		t.Errorf("got %+v", p)
	}
	second := p.Conjuncts[1]
	if second.Line != 6 || second.Column != 4 || second.Clause != "when" || second.Text != "context.risk > 50" {
		t.Errorf("the second conjunct is %+v", second)
	}
	if e.Policies[0].ID != "p" {
		t.Errorf("%s comes before the policy that decides", e.Policies[0].ID)
	}
	for _, p := range e.Policies {
		if p.ID == "others" {
			t.Error("a policy is explained whose scope does not match")
		}
	}
}

// TestExplainedUnread: an explanation names the reason why a permit whose conditions hold does
// not cover the call.
func TestExplainedUnread(t *testing.T) {
	t.Parallel()
	policies := `@id("w") @waives("approval: test") permit(principal, action == Action::"tool.execute/process.run", resource) when { context has exec && context.exec.basename == "git" && context.egress.mode != "none" };`
	sets := func(env ...string) policy.Request {
		return runs("git", `["git"]`, func(r *policy.Request) { r.Facts.Exec.Env = env })
	}
	if p := policyNamed(t, explained(t, policies, sets()), "w"); p.Outcome != explain.OutcomeSatisfied || !p.Determining {
		t.Errorf("without a variable the permit is %+v", p)
	}
	e := explained(t, policies, sets("GOROOT"))
	p := policyNamed(t, e, "w")
	last := p.Conjuncts[len(p.Conjuncts)-1]
	if p.Outcome != explain.OutcomeNotSatisfied || written(last) != `the permit reads context.exec.env, which is not empty=false context.exec.env:["GOROOT"]` {
		t.Errorf("with a variable the permit is %+v", p)
	}
	if e.Nearest == nil || e.Effect != policy.Ask {
		t.Errorf("%s, nearest %v", e.Effect, e.Nearest)
	}
}

func TestExplainedErrorNamesTheExpression(t *testing.T) {
	t.Parallel()
	e := explained(t, `@id("p") forbid(principal, action in Action::"tool.execute", resource)
when { context.protected || context.risk * 4611686018427387904 > 0 };`, runs("git", `["git"]`, func(r *policy.Request) { r.Facts.Risk = 60 }))
	p := policyNamed(t, e, "p")
	if p.Outcome != explain.OutcomeError || p.Conjuncts[0].Parts[1].Outcome != explain.OutcomeError {
		t.Errorf("got %+v", p)
	}
	want := "p (test.cedar:2): context.risk * 4611686018427387904: integer overflow"
	if len(e.Errors) != 1 || !strings.HasPrefix(e.Errors[0], want) {
		t.Errorf("errors %q, want %q", e.Errors, want)
	}
}

func TestNearestPermit(t *testing.T) {
	t.Parallel()
	e := explained(t, "", runs("git", `["git"]`))
	if got := e.Nearest.String(); got != "tools.sensitive-approved (defaults/20-tools.cedar:9): context.approval.granted is false" {
		t.Errorf("of an ask: %s", got)
	}
	e = explained(t, `forbid(principal, action in Action::"tool.execute", resource);`, calls("fs.read", `{"path":"a"}`))
	if e.Nearest.ID != "tools.not-sensitive" || len(e.Nearest.False) > 0 {
		t.Errorf("where a forbid alone stands in the way: %s", e.Nearest)
	}
	e = explained(t, "", calls("fs.read", `{"path":"a"}`))
	if e.Effect != policy.Allow || e.Nearest != nil || len(e.Flips) > 0 {
		t.Errorf("an allowed call has the nearest permit %s and flips %v", e.Nearest, e.Flips)
	}
}

// TestExplainHidesSecrets searches the whole explanation for secrets.
func TestExplainHidesSecrets(t *testing.T) {
	t.Parallel()
	const declared, shaped = "hunter2-very-secret", "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	login := tool.Descriptor{
		Name: "login", Capabilities: []tool.Capability{tool.Network}, SecretPaths: []string{"/password", "/pin"},
		InputSchema: json.RawMessage(`{"type":"object","properties":{"password":{"type":"string"},"pin":{"type":"integer"},` +
			`"list":{"type":"array","items":{"type":"string"}}}}`),
	}
	const policies = `forbid(principal, action == Action::"tool.execute/login", resource)
unless { context.args has password && context.args.password like "*x" };
forbid(principal, action == Action::"tool.execute/login", resource)
when { context.args has list && !context.args.list.contains("b") };
forbid(principal, action == Action::"tool.execute/login", resource)
when { context.args_rest != "" };
@id("host") forbid(principal, action == Action::"tool.execute/login", resource)
when { context has host && context.host == "a.example.com" };`
	o := policytest.Options{Policies: policies, Tools: []tool.Descriptor{login}}
	for _, args := range []string{
		`{"list":["` + shaped + `"],"password":"` + declared + `","more":"` + shaped + `"}`,
		`{"list":["a"],"password":"` + declared + `","pin":987654}`,
	} {
		r := policytest.Request("login", args)
		r.Facts.Host = shaped
		e := explain.Verdict(policytest.Set(t, o), r, policy.Approval{}, nil)
		if len(e.Flips) == 0 {
			t.Fatalf("no flips: %s", e.Summary)
		}
		if v := policyNamed(t, e, "host").Conjuncts[1].Values[0].Value; v != `"`+tool.Redaction+`"` {
			t.Errorf("a fact with a secret shows as %s", v)
		}
		all := fmt.Sprintf("%+v %s", e, e.Context)
		if !strings.Contains(all, tool.Redaction) {
			t.Errorf("nothing is marked as hidden: %s", all)
		}
		for _, secret := range []string{declared, shaped, "987654"} {
			if i := strings.Index(all, secret); i >= 0 {
				t.Errorf("%s shows: ...%s", secret, all[max(0, i-200):i+len(secret)])
			}
		}
	}
}

func TestExplainBoundsValues(t *testing.T) {
	t.Parallel()
	r := calls("fs.read", `{"path":"`+strings.Repeat("é", 5000)+`"}`)
	p := policyNamed(t, explained(t, `@id("p") forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context.args.path == "a" };`, r), "p")
	if v := p.Conjuncts[0].Values[0].Value; len([]rune(v)) != 200 || !strings.HasSuffix(v, "...") {
		t.Errorf("the value has %d characters: %s", len([]rune(v)), v)
	}
}

func TestExplainAllowed(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{TwoUsers: true})
	vote := policytest.Approval(policytest.Vote(policytest.Bob, access.RoleOperator))
	r := runs("git", `["git"]`)
	byVotes := explain.Verdict(set, r, vote, nil)
	if byVotes.Effect != policy.Allow || !strings.Contains(byVotes.Summary, "tools.sensitive-approved") {
		t.Errorf("with a vote: %v, %s", byVotes.Effect, byVotes.Summary)
	}
	if p := policyNamed(t, byVotes, "tools.sensitive-approved"); p.Outcome != explain.OutcomeSatisfied || !p.Determining {
		t.Errorf("with a vote the permit is %+v", p)
	}
	byGrant := explain.Verdict(set, r, policy.Approval{}, []policy.Grant{{ID: "g1", Approval: vote}})
	if byGrant.Effect != policy.Allow || !strings.Contains(byGrant.Summary, "by grant g1") {
		t.Errorf("with a grant: %v, %s", byGrant.Effect, byGrant.Summary)
	}
	if p := policyNamed(t, byGrant, "tools.sensitive-approved"); p.Outcome != explain.OutcomeSatisfied {
		t.Errorf("with a grant the permit is %+v", p)
	}
}

// TestExplainIsTheSameEachTime compares the displayed text and the JSON of two explanations.
func TestExplainIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	for _, d := range denials() {
		set := must.Get(policy.Load(d.config(t)))(t)
		displayed := func() any {
			e := explain.Verdict(set, d.request, policytest.Approval(d.votes...), d.grants)
			out := must.Get(json.Marshal(e))(t)
			return string(out)
		}
		if first := displayed(); !reflect.DeepEqual(first, displayed()) {
			t.Errorf("%s: explained in two ways", d.name)
		}
	}
}

// TestChangedCallDropsVotes applies a step that results in another call. The votes for the
// first call do not apply to it.
func TestChangedCallDropsVotes(t *testing.T) {
	t.Parallel()
	from := explain.Scenario{
		Config:   policytest.Config(policytest.Options{Policies: `forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.args has timeout_ms && context.args.timeout_ms > 50 };`}),
		Request:  calls("process.run", `{"argv":["git"],"timeout_ms":60}`),
		Approval: policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner)),
	}
	set := must.Get(policy.Load(from.Config))(t)
	e := explain.Verdict(set, from.Request, from.Approval, nil)
	to, err := e.Flips[0].Apply(from)
	if err != nil || e.Flips[0].Verdict != policy.Ask || len(to.Approval.Votes) > 0 || string(to.Request.Args) != `{"argv":["git"],"timeout_ms":50}` {
		t.Errorf("%s: %v, %+v", e.Flips[0].Summary, err, to.Approval)
	}
	if got := effectOf(t, to); got != policy.Ask {
		t.Errorf("the other call is %v, want ask", got)
	}
}

// TestFlipKeepsItsInput: applying a flip does not modify its input.
func TestFlipKeepsItsInput(t *testing.T) {
	t.Parallel()
	for _, d := range denials() {
		from := explain.Scenario{Config: d.config(t), Request: d.request, Approval: policytest.Approval(d.votes...)}
		before := fmt.Sprintf("%+v", from)
		set := must.Get(policy.Load(from.Config))(t)
		for _, f := range explain.Verdict(set, from.Request, from.Approval, d.grants).Flips {
			if _, err := f.Apply(from); err != nil {
				t.Errorf("%s: %v", d.name, err)
			}
		}
		if after := fmt.Sprintf("%+v", from); after != before {
			t.Errorf("%s: a flip changed what it was given", d.name)
		}
	}
}
