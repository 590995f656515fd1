package policyadmin_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/must"
	"palyra/internal/store/sqlite/sqlitetest"
)

// runs reports whether a call of a tool of skill is allowed.
func (h testAdmin) runs(skill string) bool {
	r := policytest.Request("echo", `{"text":"x"}`)
	r.Caller.Principal, r.Caller.OnBehalfOf, r.SkillID = household{}.List()[1].Principal, household{}.List()[1].Principal, skill
	return h.Active.Set().Evaluate(r, nil).Effect() == policy.Allow
}

// TestSetSkills: exactly the active skills may run, immediately and after Load. The order of the
// skills has no effect.
func TestSetSkills(t *testing.T) {
	t.Parallel()
	h := newAdmin(t, sqlitetest.Open(t), nothing)
	if !h.runs("") || h.runs("notes") {
		t.Fatal("at first no skill is active")
	}
	must.Do(t, h.Active.SetSkills(t.Context(), []string{"web", "notes"}))
	if !h.runs("notes") || !h.runs("web") || h.runs("other") {
		t.Error("active are not those that were set")
	}
	was := h.Active.Set()
	must.Do(t, h.Active.SetSkills(t.Context(), []string{"notes", "web", "notes"}))
	if h.Active.Set() != was {
		t.Error("the same skills made another set")
	}
	must.Do(t, h.Active.SetSkills(t.Context(), []string{"web"}))
	if h.runs("notes") || !h.runs("web") {
		t.Error("a skill that is active no more runs, or the other one does not")
	}
	must.Do(t, h.Active.SetSkills(t.Context(), nil))
	if h.runs("web") {
		t.Error("there are active skills still")
	}
}

// TestSkillsBeforeLoad: skills can be set before policies are loaded.
func TestSkillsBeforeLoad(t *testing.T) {
	t.Parallel()
	h := testAdmin{t: t}
	h.Admin = policyadmin.New(houseConfig(t, sqlitetest.Open(t), nothing, nil))
	must.Do(t, h.Active.SetSkills(t.Context(), []string{"notes"}))
	must.Do(t, h.Loader.Load(t.Context()))
	if !h.runs("notes") || h.runs("web") {
		t.Error("Load did not count the skills in")
	}
}
