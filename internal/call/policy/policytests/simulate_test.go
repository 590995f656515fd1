package policytests_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

func TestReplaceFacts(t *testing.T) {
	t.Parallel()
	r := policytest.Request("process.run", `{}`)
	r.Facts.Exec = &tool.ExecFacts{Basename: "curl", Path: "/usr/bin/curl"}
	r.Facts.Path, r.Facts.Paths, r.Facts.Host = "a", []string{"a", "b"}, "example.com"
	before := *r.Facts.Exec
	got := r
	must.Do(t, policytests.ReplaceFacts(&got, []byte(`{"exec":{"basename":"git"},"session":{"tainted":true},"path":"c","protected":true,
		"sandbox":{"tier":"c"},"egress":{"hosts":["h:1"],"secrets":["b","a"]},"surface":"console","present":true,"risk":7}`)))
	want := r
	want.Facts.Exec = &tool.ExecFacts{Basename: "git", Path: "/usr/bin/curl"} // others are unchanged
	want.Facts.PathFolded = "c"
	want.Facts.Path, want.Facts.Paths, want.Facts.Protected, want.Facts.Risk = "c", nil, true, 7
	want.Facts.SandboxTier, want.Facts.EgressHosts, want.Facts.Secrets = "c", []string{"h:1"}, []string{"a", "b"}
	want.SessionFacts.Tainted = true
	want.Caller.Surface, want.Caller.Present = access.SurfaceConsole, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, *r.Facts.Exec); diff != "" {
		t.Errorf("the facts of the request that was copied changed:\n%s", diff)
	}
	if err := policytests.ReplaceFacts(&got, []byte(`{"exec":null}`)); err != nil || got.Facts.Exec != nil {
		t.Errorf("null left %v, %v", got.Facts.Exec, err)
	}
	for _, wrong := range []string{`{"exe":1}`, `{"exec":{"name":"git"}}`, `{"port":"x"}`, `[]`, `{"risk":1,"risk":2}`, `{} {}`, `{`} {
		if err := policytests.ReplaceFacts(&got, []byte(wrong)); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{TwoUsers: true, Policies: `@id("two") forbid(principal, action in Action::"tool.execute", resource)
		unless { context.approval.approvers >= 2 };`, Members: []access.Member{
		{Principal: access.User("carol"), Roles: []access.Role{access.RoleOperator}},
	}})
	r := policytest.Request("process.run", `{"argv":["make"]}`)
	for _, c := range []struct {
		name    string
		votes   []policy.Vote
		effect  policy.Effect
		missing string
	}{
		{"none", nil, policy.Ask, "the approval of 2 people"},
		{"one", []policy.Vote{policytest.Vote(policytest.Bob, access.RoleOperator)}, policy.Ask, "the approval of 1 person"},
		{"two", []policy.Vote{policytest.Vote(policytest.Bob, access.RoleOperator), policytest.Vote(access.User("carol"))}, policy.Allow, ""},
		{"the requester", []policy.Vote{policytest.Vote(policytest.Bob), policytest.Vote(policytest.Alice)}, policy.Ask, "the approval of 1 person"},
	} {
		v := set.Simulate(r, policy.Approval{Votes: c.votes, Now: r.Time}, nil)
		if v.Effect() != c.effect || v.Missing() != c.missing {
			t.Errorf("%s: %s, missing %q", c.name, v.Effect(), v.Missing())
		}
	}
}

// A described vote must be valid; otherwise it is an error.
func TestVoteFor(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{TwoUsers: true})
	v, err := policytests.VoteFor(set, policy.Vote{User: policytest.Bob}, policytest.Now)
	if err != nil || v.Surface != access.SurfaceCLI || len(v.Roles) != 1 || v.Roles[0] != access.RoleOperator || !v.At.Equal(policytest.Now) {
		t.Errorf("%+v, %v", v, err)
	}
	for _, wrong := range []policy.Vote{
		{User: access.User("nobody")}, {User: policytest.Agent}, {User: policytest.Bob, Roles: []access.Role{access.RoleOwner}},
		{User: policytest.Bob, Surface: "phone"},
	} {
		if _, err := policytests.VoteFor(set, wrong, policytest.Now); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestCallerFor(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{})
	c := policytests.CallerFor(set, policytest.Agent)
	if c.OnBehalfOf != policytest.Alice || len(c.Roles) != 1 || c.Surface != access.SurfaceCLI || !c.Paired {
		t.Errorf("%+v", c)
	}
	if c := policytests.CallerFor(set, access.User("nobody")); len(c.Roles) != 0 || !c.OnBehalfOf.IsZero() {
		t.Errorf("a stranger is %+v", c)
	}
}
