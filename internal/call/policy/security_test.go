package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

var (
	ann = access.User("ann")
	bea = access.User("bea")
)

func mustLoad(t testing.TB, cfg Config) *Set {
	t.Helper()
	return must.Get(Load(cfg))(t)
}

// small returns a configuration with a tool that only reads, a tool that writes, and one owner
// with an agent.
func small(text string, members ...access.Member) Config {
	return Config{
		Sources: []Source{{Name: "t.cedar", Text: text}},
		Tools: []tool.Descriptor{
			{Name: "read", Capabilities: []tool.Capability{tool.FilesystemRead}, ReadOnly: true},
			{Name: "write", Capabilities: []tool.Capability{tool.FilesystemWrite}},
		},
		Members: append([]access.Member{
			{Principal: ann, Roles: []access.Role{access.RoleOwner}},
			{Principal: access.Agent("bot"), Owner: ann, Roles: []access.Role{access.RoleAgent}},
		}, members...),
	}
}

func by(p access.Principal, name string) Request {
	return Request{Caller: access.Caller{Principal: p, Surface: access.SurfaceCLI}, Tool: name, Args: json.RawMessage(`{}`)}
}

// Cedar skips a forbid whose evaluation fails; the gateway must deny the call.
func TestFailingForbidDenies(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, small(`@id("overflows")
forbid(principal, action == Action::"tool.execute/read", resource)
when { context.risk + 9223372036854775807 < 5 };`))
	r := by(ann, "read")
	r.Facts.Risk = 90
	v := s.Evaluate(r, nil)
	if v.Effect() != Deny || v.Reason() != reason.PolicyError || len(v.Errors()) != 1 || !strings.HasPrefix(v.Errors()[0], "overflows: ") {
		t.Errorf("got %v, %v, %v, want a deny for the error", v.Effect(), v.Reason(), v.Errors())
	}
	if j := s.Judge(r, Approval{}); j.Allowed || len(j.Errors) == 0 {
		t.Errorf("Judge = %+v, want an error", j)
	}
	// Negative control: Cedar alone allows the same call.
	c, _ := s.evaluator.prepare(&r)
	c.context["approval"] = s.voting.noApproval
	req := c.req
	req.Context = types.NewRecord(c.context)
	if decision, diag := cedar.Authorize(c.found, c.entities, req); decision != cedar.Allow || len(diag.Errors) != 1 {
		t.Errorf("plain Cedar: %v, %v; the control expects it to fail open", decision, diag.Errors)
	}
	// The forbid does not match without the overflow, and the call is allowed.
	r.Facts.Risk = 0
	if v := s.Evaluate(r, nil); v.Effect() != Allow {
		t.Errorf("with no overflow: %v, %v", v.Effect(), v.Errors())
	}
}

// A request that does not conform to the schema is denied before Cedar evaluates it.
func TestRequestIsValidated(t *testing.T) {
	t.Parallel()
	cfg := small("")
	cfg.Tools[0].InputSchema = json.RawMessage(`{"type":"object","required":["path"],"additionalProperties":false,"properties":{"path":{"type":"string"}}}`)
	s := mustLoad(t, cfg)
	for _, args := range []string{`{}`, `{"path":1}`, `{"path":null}`, `[]`, `"x"`, `{"path":"a"`, `{"path":"a"} x`, `{"path":"a","path":"b"}`, `{"path":["a"]}`} {
		r := by(ann, "read")
		r.Args = json.RawMessage(args)
		if v := s.Evaluate(r, nil); v.Effect() != Deny || v.Reason() != reason.PolicyError || len(v.Errors()) == 0 {
			t.Errorf("%s: %v, %v, %v", args, v.Effect(), v.Reason(), v.Errors())
		}
	}
	r := by(ann, "read")
	r.Args = json.RawMessage(`{"path":"a"}`)
	if v := s.Evaluate(r, nil); v.Effect() != Allow {
		t.Errorf("control: %v, %v", v.Effect(), v.Errors())
	}
	if v := s.Evaluate(by(access.Principal{}, "read"), nil); v.Effect() != Deny {
		t.Errorf("nobody: %v", v.Effect())
	}
}

func TestCeilings(t *testing.T) {
	t.Parallel()
	off := access.Member{Principal: bea, Roles: []access.Role{access.RoleOperator}, Disabled: true}
	bot2 := access.Member{Principal: access.Agent("bot2"), Owner: bea, Roles: []access.Role{access.RoleAgent}}
	permitAll := `@id("all") @waives("approval: test") permit(principal, action in Action::"tool.execute", resource);`
	cfg := small(permitAll, off, bot2)
	cfg.Snapshot.AllowedTools = []string{"read"}
	cfg.Snapshot.AllowedChannels = []string{"chat"}
	cfg.Snapshot.ActiveSkills = []string{"good"}
	s := mustLoad(t, cfg)
	in := func(change func(*Request)) Request { r := by(ann, "read"); change(&r); return r }
	cases := []struct {
		name    string
		request Request
		ceiling string
	}{
		{"control", by(ann, "read"), ""},
		{"control agent", by(access.Agent("bot"), "read"), ""},
		{"control channel", in(func(r *Request) { r.Channel = "chat" }), ""},
		{"control skill", in(func(r *Request) { r.SkillID = "good" }), ""},
		{"tool not allowed", by(ann, "write"), "ceiling.tool-allowlist"},
		{"disabled", by(bea, "read"), "ceiling.principal"},
		{"agent of a disabled owner", by(access.Agent("bot2"), "read"), "ceiling.principal"},
		{"stranger", by(access.User("zoe"), "read"), "ceiling.principal"},
		{"stranger agent", by(access.Agent("zoe"), "read"), "ceiling.principal"},
		{"channel", in(func(r *Request) { r.Channel = "other" }), "ceiling.channel"},
		{"skill", in(func(r *Request) { r.SkillID = "other" }), "ceiling.skill"},
	}
	for _, c := range cases {
		v := s.Evaluate(c.request, nil)
		d := v.Determining()
		switch {
		case c.ceiling == "" && v.Effect() != Allow:
			t.Errorf("%s: %v (%v)", c.name, v.Effect(), v.Errors())
		case c.ceiling != "" && (v.Effect() != Deny || len(d) != 1 || d[0].ID != c.ceiling || v.Remedy() == ""):
			t.Errorf("%s: %v by %v, want a deny by %s", c.name, v.Effect(), d, c.ceiling)
		}
	}
}

// The default policies without their ceilings must not load. This is also the negative control
// of the ceilings: without them the permits win.
func TestSamplesRefuseDamagedDefaults(t *testing.T) {
	t.Parallel()
	permitAll := `@id("all") @waives("approval: test") permit(principal, action in Action::"tool.execute", resource);
@id("api") permit(principal is Agent, action == Action::"approval.decide", resource);`
	cfg := small(permitAll, access.Member{Principal: bea, Roles: []access.Role{access.RoleOperator}})
	if _, findings := build(cfg, Defaults()); finding.HasErrors(findings) {
		t.Fatalf("control: %v", findings)
	}
	var damaged []Source
	for _, d := range Defaults() {
		if !strings.Contains(d.Name, "ceilings") {
			damaged = append(damaged, d)
		}
	}
	_, findings := build(cfg, damaged)
	var said []string
	for _, f := range findings {
		if f.Code == finding.CodeSample {
			said = append(said, f.Message)
		}
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{"not pinned", "agent:bot decide", "own request"} {
		if !strings.Contains(all, want) {
			t.Errorf("no sample says %q:\n%s", want, all)
		}
	}
}

func decides(s *Set, who, requester access.Principal) bool {
	return s.Access().Authorize(AccessRequest{
		Caller: access.Caller{Principal: who, Surface: access.SurfaceCLI}, Permission: access.PermApprovalDecide,
		Approval: &ApprovalResource{ID: "01J", Severity: expr.SeverityHigh, Requester: requester},
	}).Allowed
}

func TestSelfApproval(t *testing.T) {
	t.Parallel()
	alone := mustLoad(t, small(""))
	if !decides(alone, ann, ann) {
		t.Error("the only user may not answer for their own agents")
	}
	bob := access.Member{Principal: bea, Roles: []access.Role{access.RoleOperator}}
	two := mustLoad(t, small("", bob))
	if decides(two, ann, ann) || decides(two, bea, bea) {
		t.Error("with two users, one may decide their own request")
	}
	if !decides(two, bea, ann) || !decides(two, ann, bea) {
		t.Error("control: with two users, neither may decide the other's request")
	}
	for _, s := range []*Set{alone, two} {
		if decides(s, access.Agent("bot"), ann) || decides(s, access.Principal{Kind: access.KindService, Name: "x"}, ann) {
			t.Error("an agent or a service may decide")
		}
	}
	// The votes of the requester do not count either, and votes of an agent never count.
	r := by(access.Agent("bot"), "write")
	vote := func(p access.Principal) Approval {
		return Approval{Votes: []Vote{{User: p, Surface: access.SurfaceCLI}}}
	}
	for _, c := range []struct {
		name  string
		set   *Set
		voter access.Principal
		want  bool
	}{
		{"alone, own", alone, ann, true}, {"two, own", two, ann, false}, {"two, other", two, bea, true},
		{"agent", alone, access.Agent("bot"), false}, {"stranger", alone, bea, false},
	} {
		if got := c.set.Judge(r, vote(c.voter)).Allowed; got != c.want {
			t.Errorf("%s: allowed %v, want %v", c.name, got, c.want)
		}
	}
	bob.Disabled = true
	if mustLoad(t, small("", bob)).Judge(r, vote(bea)).Allowed {
		t.Error("the vote of a disabled user counts")
	}
	if !decides(mustLoad(t, small("", bob)), ann, ann) {
		t.Error("a disabled second user keeps the only enabled one from answering")
	}
	bob.Disabled, bob.Roles = false, []access.Role{access.RoleDeveloper}
	if mustLoad(t, small("", bob)).Judge(r, vote(bea)).Allowed {
		t.Error("the vote of somebody who may not decide counts")
	}
}

// A role that the voter has lost since the vote, or only claims, does not count.
func TestRolesOfVotesAreCurrent(t *testing.T) {
	t.Parallel()
	text := `forbid(principal, action == Action::"tool.execute/write", resource) unless { context.approval.by_role.security >= 1 };`
	build := func(roles ...access.Role) *Set {
		cfg := small(text, access.Member{Principal: bea, Roles: roles})
		cfg.Roles = []access.Role{"security"}
		return mustLoad(t, cfg)
	}
	a := Approval{Votes: []Vote{{User: bea, Roles: []access.Role{"security", access.RoleOperator}, Surface: access.SurfaceCLI}}}
	r := by(access.Agent("bot"), "write")
	if !build(access.RoleOperator, "security").Judge(r, a).Allowed {
		t.Error("control: a vote with a held role does not count")
	}
	if build(access.RoleOperator).Judge(r, a).Allowed {
		t.Error("a vote lends a role that its voter does not hold any more")
	}
}

func TestSensitiveToolsFlag(t *testing.T) {
	t.Parallel()
	cfg := small("")
	if v := mustLoad(t, cfg).Evaluate(by(access.Agent("bot"), "write"), nil); v.Effect() != Ask {
		t.Errorf("by default: %v, want ask", v.Effect())
	}
	cfg.Snapshot.AllowSensitiveTools = true
	s := mustLoad(t, cfg)
	v := s.Evaluate(by(access.Agent("bot"), "write"), nil)
	if v.Effect() != Allow || v.Determining()[0].ID != "config.allow-sensitive-tools" {
		t.Errorf("with the flag: %v by %v, want allow", v.Effect(), v.Determining())
	}
	said := false
	for _, f := range s.Findings() {
		said = said || f.Code == finding.CodeSensitiveTools
	}
	if !said {
		t.Error("the set does not say that allow_sensitive_tools is on")
	}
}

func TestUnattainableBySeverity(t *testing.T) {
	t.Parallel()
	text := `@id("critical") @severity("critical")
permit(principal, action == Action::"tool.execute/write", resource) when { context.approval.granted };
@id("owners") forbid(principal, action == Action::"approval.decide", resource)
when { resource.severity == "critical" } unless { principal in Role::"owner" };`
	bob := access.Member{Principal: bea, Roles: []access.Role{access.RoleOperator}}
	// The call is by ann's agent: only owners may decide, and ann must not decide her own call.
	v := mustLoad(t, small(text, bob)).Evaluate(by(access.Agent("bot"), "write"), nil)
	if v.Effect() != Deny || v.Reason() != reason.ApprovalUnattainable {
		t.Errorf("got %v, %v, want unattainable", v.Effect(), v.Reason())
	}
	bob.Roles = []access.Role{access.RoleOwner}
	v = mustLoad(t, small(text, bob)).Evaluate(by(access.Agent("bot"), "write"), nil)
	if v.Effect() != Ask || v.Severity() != expr.SeverityCritical {
		t.Errorf("control: %v, %v, want a critical ask", v.Effect(), v.Severity())
	}
}

// A denial names the rule and the remedy. It also reports a permission that no policy grants.
func TestPermitSaysWhy(t *testing.T) {
	t.Parallel()
	two := mustLoad(t, small("", access.Member{Principal: bea, Roles: []access.Role{access.RoleOperator}}))
	ask := func(who, requester access.Principal) error {
		return two.Access().Permit(AccessRequest{
			Caller: access.Caller{Principal: who, Surface: access.SurfaceCLI}, Permission: access.PermApprovalDecide,
			Approval: &ApprovalResource{ID: "01J", Severity: expr.SeverityHigh, Requester: requester},
		})
	}
	if err := ask(bea, ann); err != nil {
		t.Errorf("the control: %v", err)
	}
	err := ask(bea, bea)
	var known *reason.Error
	if !errors.As(err, &known) || known.Code != reason.PermissionDenied ||
		!strings.Contains(known.Message, "nobody decides on their own request") || known.Remedy != "Ask another operator to decide." {
		t.Errorf("got %v", err)
	}
}
