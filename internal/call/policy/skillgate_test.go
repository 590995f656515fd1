package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// skillTool is a tool of the skill web. It reaches no host.
func skillTool() tool.Descriptor {
	return tool.Descriptor{
		Name: "web/lookup", Title: "Look up", Description: "looks up", InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Executor: tool.TierAWasmtime, Skill: "web",
	}
}

func skillCall() policy.Request {
	r := policytest.Request("web/lookup", `{}`)
	r.SkillID = "web"
	return r
}

func skillSet(t *testing.T, policies string, active ...string) *policy.Set {
	t.Helper()
	return policytest.Set(t, policytest.Options{
		Policies: policies, Tools: []tool.Descriptor{skillTool()}, Snapshot: policy.Snapshot{ActiveSkills: active},
	})
}

// TestSkillGate: a call of a skill that is inactive, or that policy forbids to the caller, is
// denied without a question. No vote changes that.
func TestSkillGate(t *testing.T) {
	t.Parallel()
	const (
		barred  = `@id("t.bar") @reason("no web for agents") @remedy("Ask a person.") forbid(principal is Agent, action == Action::"skill.execute", resource == Skill::"web");`
		failing = `@id("t.fail") forbid(principal, action == Action::"skill.execute", resource) when { 9223372036854775807 + 1 > 0 };`
		// permitted would allow the call, but the skill gate comes first.
		permitted = `@id("t.all") @waives("approval: a test") permit(principal, action in Action::"tool.execute", resource) when { context.egress.mode != "none" };`
	)
	for _, c := range []struct {
		name, policies string
		active         []string
		by             string
	}{
		{"control", "", []string{"web"}, ""},
		{"none is active", "", nil, "ceiling.skill"},
		{"another is active", "", []string{"notes"}, "ceiling.skill"},
		{"forbidden", barred, []string{"web"}, "t.bar"},
		{"an error denies", failing, []string{"web"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := skillSet(t, c.policies+permitted, c.active...)
			v := set.Evaluate(skillCall(), nil)
			gate := v.SkillGate()
			if gate == nil || gate.Skill != "web" {
				t.Fatalf("gate %+v", gate)
			}
			want := c.name == "control"
			if gate.Allowed != want || (v.Effect() == policy.Allow) != want {
				t.Errorf("gate %+v, verdict %v", gate, v.Effect())
			}
			if c.by != "" && (len(v.Determining()) != 1 || v.Determining()[0].ID != c.by || v.Remedy() == "" || !strings.Contains(gate.Message(), "web")) {
				t.Errorf("by %+v, remedy %q, %q", v.Determining(), v.Remedy(), gate.Message())
			}
			if c.policies == failing && v.Reason() != reason.PolicyError {
				t.Errorf("reason %v", v.Reason())
			}
			votes := policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner))
			if got := set.Judge(skillCall(), votes).Allowed; got != want {
				t.Errorf("with a person's yes: %v", got)
			}
			if got := set.Simulate(skillCall(), votes, nil).Effect() == policy.Allow; got != want {
				t.Errorf("simulated with a person's yes: %v", got)
			}
			listed := slices.ContainsFunc(set.Catalog().Tools(skillCall().Caller), func(e policy.CatalogEntry) bool { return e.Tool == "web/lookup" })
			if listed != (c.by == "") { // the listing evaluates no call, so the error does not occur
				t.Errorf("listed: %v", listed)
			}
			if bars := set.Catalog().Bars(skillCall().Caller, "web/lookup"); c.by != "" && (len(bars) != 1 || bars[0].ID != c.by) {
				t.Errorf("hidden by %v", bars)
			}
		})
	}
}

// TestSkillGateOfEditors: a person who edits a call must also be permitted to use its skill.
func TestSkillGateOfEditors(t *testing.T) {
	t.Parallel()
	set := skillSet(t, `@id("t.bar") @reason("not alice") forbid(principal == User::"alice", action == Action::"skill.execute", resource);`, "web")
	r := skillCall()
	if set.Evaluate(r, nil).Effect() == policy.Deny {
		t.Fatal("control: the call itself is denied")
	}
	r.Editors = []access.Caller{{Principal: policytest.Alice, OnBehalfOf: policytest.Alice}}
	v := set.Evaluate(r, nil)
	if v.Effect() != policy.Deny || v.SkillGate().Caller != policytest.Alice || set.Judge(r, policytest.Approval(policytest.Vote(policytest.Alice))).Allowed {
		t.Errorf("%v, %+v", v.Effect(), v.SkillGate())
	}
}

// TestSkillOfTools: a request cannot omit the skill of its tool. The tools of a skill are not
// members of an upstream server with the same name.
func TestSkillOfTools(t *testing.T) {
	t.Parallel()
	bare := skillCall()
	bare.SkillID = ""
	if v := skillSet(t, "", "web").Evaluate(bare, nil); v.Effect() != policy.Deny || v.Reason() != reason.PolicyError {
		t.Errorf("a request that leaves its skill out: %v, %v", v.Effect(), v.Reason())
	}
	if v := skillSet(t, "", "web").Evaluate(policytest.Request("echo", `{"text":"x"}`), nil); v.SkillGate() != nil {
		t.Errorf("a tool of no skill has a gate: %+v", v.SkillGate())
	}
	server := skillTool()
	server.Name, server.Skill = "web/other", ""
	for text, want := range map[string]policy.Effect{
		`@id("t.no") forbid(principal, action in Action::"tool.execute", resource in Server::"web");`: policy.Allow,
		`@id("t.no") forbid(principal, action in Action::"tool.execute", resource in Skill::"web");`:  policy.Deny,
	} {
		set := policytest.Set(t, policytest.Options{Policies: text, Tools: []tool.Descriptor{skillTool(), server}, Snapshot: policy.Snapshot{ActiveSkills: []string{"web"}}})
		if got := set.Evaluate(skillCall(), nil).Effect(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestSkillGateIsExplained: the journaled verdict and explanations contain the skill gate, and
// explanations name the operator's next step.
func TestSkillGateIsExplained(t *testing.T) {
	t.Parallel()
	set := skillSet(t, "")
	var told struct {
		Gate struct {
			Skill       string               `json:"skill"`
			Allowed     bool                 `json:"allowed"`
			Determining []policy.Determining `json:"determining"`
		} `json:"skill_gate"`
	}
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(set.Evaluate(skillCall(), nil)))(t), &told))
	if told.Gate.Skill != "web" || told.Gate.Allowed || len(told.Gate.Determining) != 1 {
		t.Errorf("%+v", told)
	}
	e := explain.Verdict(set, skillCall(), policy.Approval{}, nil)
	if e.Gate == nil || len(e.Policies) == 0 || e.Policies[0].ID != "ceiling.skill" || !strings.Contains(e.Summary, "palyra skills enable web") {
		t.Errorf("%s\n%+v", e.Summary, e.Policies)
	}
	// The explanation names an operator's forbid and how to remove it.
	set = skillSet(t, `@id("t.bar") forbid(principal is Agent, action == Action::"skill.execute", resource);`, "web")
	if e = explain.Verdict(set, skillCall(), policy.Approval{}, nil); !strings.Contains(e.Summary, "t.bar") || len(e.Flips) == 0 {
		t.Errorf("%s\n%+v", e.Summary, e.Flips)
	}
}
