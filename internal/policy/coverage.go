package policy

import "slices"

// Coverage is what tests covered of one policy.
type Coverage struct {
	PolicyID string
	File     string
	Line     int
	// Applied counts the cases that its scope and its conditions matched, and
	// Determined those whose verdict rests on it, or which it kept a grant from
	// covering.
	Applied    int
	Determined int
	Conditions []ConditionCoverage
}

// ConditionCoverage is what tests covered of one conjunct: in how many cases it
// was true, and in how many false.
type ConditionCoverage struct {
	Text     string
	Line     int
	Column   int
	WasTrue  int
	WasFalse int
}

// CoveredPercent is how much of the policies was covered, from 0 to 100,
// rounded down: each policy counts once for having determined a verdict, and
// each of its conjuncts twice, for having been true and for having been false.
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

// coverage counts over the cases of one run. The embedded defaults are not
// counted: they are tested where they are made.
type coverage struct {
	policies []Coverage
	// place is where a policy stands in policies.
	place map[string]int
}

func newCoverage(s *Set) *coverage {
	c := &coverage{place: make(map[string]int)}
	for _, p := range s.policies {
		if p.builtin {
			continue
		}
		c.place[p.id] = len(c.policies)
		c.policies = append(c.policies, Coverage{PolicyID: p.id, File: p.source.name, Line: p.line, Conditions: p.conjunctPlaces()})
	}
	return c
}

// add counts one case.
func (c *coverage) add(v Verdict, shown []ExplainedPolicy) {
	rests := determiningIDs(v)
	for _, p := range shown {
		i, ok := c.place[p.ID]
		if !ok {
			continue
		}
		at := &c.policies[i]
		applied := p.Outcome == OutcomeSatisfied
		if applied {
			at.Applied++
		}
		if slices.Contains(rests, p.ID) || applied && p.Effect == effectWord(false) {
			at.Determined++
		}
		for n, conjunct := range p.Conjuncts {
			at.Conditions[n].count(conjunct.Outcome)
		}
	}
}

func (c *ConditionCoverage) count(outcome string) {
	switch outcome {
	case OutcomeTrue:
		c.WasTrue++
	case OutcomeFalse:
		c.WasFalse++
	}
}

func (c *coverage) list() []Coverage { return c.policies }

// conjunctPlaces lists the conjuncts of a policy's conditions, as an
// explanation does.
func (c *compiled) conjunctPlaces() []ConditionCoverage {
	var out []ConditionCoverage
	for _, cond := range c.conditions() {
		for _, t := range splitTree(cond.body) {
			at := ConditionCoverage{Text: c.textOf(t)}
			at.Line, at.Column = c.placeOf(t)
			out = append(out, at)
		}
	}
	return out
}

// policiesShown are the policies of an explanation, without the search for what
// would turn the verdict.
func (s *Set) policiesShown(r Request, a Approval, grants []Grant, v Verdict) []ExplainedPolicy {
	one := s.decisive(r)
	c, refused := s.prepare(one)
	if refused != nil {
		return nil
	}
	seen := s.viewCall(c, one)
	seen.see(s.factsShown(c, v, a, grants, v.effect == Allow && v.grantID == ""))
	return seen.policies(v.determining)
}
