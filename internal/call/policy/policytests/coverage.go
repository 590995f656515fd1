package policytests

import (
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/internal/expr"
)

// Coverage is the test coverage of one policy.
type Coverage struct {
	PolicyID string
	File     string
	Line     int
	// Applied counts the cases that its scope and conditions matched, and Determined the cases
	// whose verdict it determined, or for which it made a grant insufficient.
	Applied    int
	Determined int
	Conditions []ConditionCoverage
}

// ConditionCoverage is the test coverage of one conjunct: the number of cases in which it was
// true, and in which it was false.
type ConditionCoverage struct {
	Text     string
	Line     int
	Column   int
	WasTrue  int
	WasFalse int
}

// CoveredPercent is the covered share of the policies, from 0 to 100, rounded down. Each policy
// counts once, for having determined a verdict. Each of its conjuncts counts twice, for having
// been true and for having been false.
func CoveredPercent(list []Coverage) int {
	all, covered := 0, 0
	count := func(cases int) {
		all++
		if cases > 0 {
			covered++
		}
	}
	for _, p := range list {
		count(p.Determined)
		for _, c := range p.Conditions {
			count(c.WasTrue)
			count(c.WasFalse)
		}
	}
	if all == 0 {
		return 100
	}
	return 100 * covered / all
}

// coverage counts over the cases of one run. Embedded defaults are not counted: they have their
// own tests.
type coverage struct {
	policies []Coverage
	// place is the index of a policy in policies.
	place map[string]int
}

func newCoverage(v policy.View) *coverage {
	c := &coverage{place: make(map[string]int)}
	for _, p := range v.Policies() {
		if p.Builtin {
			continue
		}
		c.place[p.ID] = len(c.policies)
		c.policies = append(c.policies, Coverage{PolicyID: p.ID, File: p.Source.Name, Line: p.Line, Conditions: conjunctPlaces(p)})
	}
	return c
}

// add counts one case.
func (c *coverage) add(v policy.Verdict, policies []explain.Policy) {
	rests := determiningIDs(v)
	if gate := v.SkillGate(); gate != nil {
		for _, d := range gate.Determining {
			rests = append(rests, d.ID)
		}
	}
	for _, p := range policies {
		i, ok := c.place[p.ID]
		if !ok {
			continue
		}
		at := &c.policies[i]
		applied := p.Outcome == explain.OutcomeSatisfied
		if applied {
			at.Applied++
		}
		if slices.Contains(rests, p.ID) || applied && p.Effect == expr.EffectWord(false) {
			at.Determined++
		}
		// An explanation may have additional conditions that the gateway requires.
		for n := range at.Conditions {
			at.Conditions[n].count(p.Conjuncts[n].Outcome)
		}
	}
}

func (c *ConditionCoverage) count(outcome string) {
	switch outcome {
	case explain.OutcomeTrue:
		c.WasTrue++
	case explain.OutcomeFalse:
		c.WasFalse++
	}
}

func (c *coverage) list() []Coverage { return c.policies }

// conjunctPlaces lists the conjuncts of a policy's conditions in the order of an explanation.
func conjunctPlaces(c *expr.Policy) []ConditionCoverage {
	var out []ConditionCoverage
	for _, cond := range c.Conditions() {
		for _, t := range expr.SplitTree(cond.Body) {
			at := ConditionCoverage{Text: c.TextOf(t)}
			at.Line, at.Column = c.PlaceOf(t)
			out = append(out, at)
		}
	}
	return out
}
