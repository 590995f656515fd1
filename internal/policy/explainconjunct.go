package policy

import (
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// policies explains every policy in scope, those of the verdict first.
func (v *sight) policies(determining []Determining) []ExplainedPolicy {
	rests := make(map[string]bool, len(determining))
	for _, d := range determining {
		rests[d.ID] = true
	}
	var first, others []ExplainedPolicy
	for _, p := range v.inScope() {
		e := v.policy(p)
		if e.Determining = rests[p.id]; e.Determining {
			first = append(first, e)
		} else {
			others = append(others, e)
		}
	}
	return append(first, others...)
}

func (v *sight) policy(p *compiled) ExplainedPolicy {
	out := ExplainedPolicy{
		ID: p.id, File: p.source.name, Line: p.line, Effect: effectWord(p.permits()), Outcome: OutcomeSatisfied,
		Reason: p.notes.reason, Remedy: p.notes.remedy,
	}
	for _, cond := range p.conditions() {
		held := v.clause(p, cond, out.Outcome == OutcomeSatisfied, &out.Conjuncts)
		switch {
		case out.Outcome != OutcomeSatisfied:
		case held == OutcomeError:
			out.Outcome = OutcomeError
		case (held == OutcomeTrue) != cond.when:
			out.Outcome = OutcomeNotSatisfied
		}
	}
	return out
}

// clause explains the conjuncts of one when or unless and returns the outcome
// of all together.
func (v *sight) clause(p *compiled, cond condition, reached bool, into *[]ExplainedConjunct) string {
	held := OutcomeTrue
	for _, t := range splitTree(cond.body) {
		e := v.explain(p, t, reached && held == OutcomeTrue)
		e.Clause = clauseWord(cond.when)
		*into = append(*into, e)
		if held == OutcomeTrue {
			held = e.Outcome
		}
	}
	return held
}

func clauseWord(when bool) string {
	if when {
		return "when"
	}
	return "unless"
}

// splitTree cuts a conjunction. "x has a.b" is one conjunct.
func splitTree(t *tree) []*tree {
	if _, ok := t.node.(nodeAnd); ok && !dottedHas(t) {
		return append(splitTree(t.kids[0]), splitTree(t.kids[1])...)
	}
	return []*tree{t}
}

// dottedHas reports whether a conjunction was written "x has a.b", whose
// second half has no text of its own.
func dottedHas(t *tree) bool { return t.to > 0 && t.kids[1].to == 0 }

// explain evaluates an expression and, of a composite one, its parts.
func (v *sight) explain(p *compiled, t *tree, reached bool) ExplainedConjunct {
	out := ExplainedConjunct{Text: p.textOf(t), Outcome: OutcomeSkipped}
	out.Line, out.Column = p.placeOf(t)
	kids := partsOf(t)
	if kids == nil {
		v.explainLeaf(p, t, reached, &out)
		return out
	}
	for i, k := range kids {
		part := v.explain(p, k, reached && out.reaches(t, i))
		out.Parts = append(out.Parts, part)
	}
	if reached {
		out.Outcome, out.Error = v.outcome(p, t)
	}
	return out
}

// partsOf returns the operands of what combines conditions, nil for others.
func partsOf(t *tree) []*tree {
	switch t.node.(type) {
	case nodeOr:
		return splitOr(t)
	case nodeAnd:
		if !dottedHas(t) {
			return splitTree(t)
		}
	case nodeNot, nodeIf:
		return t.kids
	}
	return nil
}

func splitOr(t *tree) []*tree {
	if _, ok := t.node.(nodeOr); ok {
		return append(splitOr(t.kids[0]), splitOr(t.kids[1])...)
	}
	return []*tree{t}
}

// reaches reports whether Cedar would look at part i of t, after the outcomes
// of the parts before it.
func (e *ExplainedConjunct) reaches(t *tree, i int) bool {
	if i == 0 {
		return true
	}
	switch t.node.(type) {
	case nodeOr:
		return e.Parts[i-1].Outcome == OutcomeFalse
	case nodeAnd:
		return e.Parts[i-1].Outcome == OutcomeTrue
	case nodeIf:
		return i == 1 && e.Parts[0].Outcome == OutcomeTrue || i == 2 && e.Parts[0].Outcome == OutcomeFalse
	default:
		return true
	}
}

func (v *sight) explainLeaf(p *compiled, t *tree, reached bool, out *ExplainedConjunct) {
	for _, chain := range reads(t) {
		out.Values = append(out.Values, ExplainedValue{Path: strings.Join(chain, "."), Value: valueText(v.valueAt(chain))})
	}
	if reached {
		out.Outcome, out.Error = v.outcome(p, t)
	}
}

// outcome evaluates a condition; of an error it says which part failed.
func (v *sight) outcome(p *compiled, t *tree) (outcome, failure string) {
	value, err := evalNode(t.node, v.env)
	if err != nil {
		at, err := v.failing(t, err)
		return OutcomeError, tool.RedactText(clipText(p.textOf(at) + ": " + err.Error()))
	}
	if value == types.Boolean(true) {
		return OutcomeTrue, ""
	}
	return OutcomeFalse, ""
}

// failing finds the smallest part that fails, with its error.
func (v *sight) failing(t *tree, err error) (*tree, error) {
	kids := t.kids
	if _, ok := t.node.(nodeIf); ok {
		kids = v.reachedByIf(t)
	}
	for _, k := range kids {
		if _, inner := evalNode(k.node, v.env); inner != nil {
			return v.failing(k, inner)
		}
	}
	return t, err
}

// reachedByIf returns the condition of an if and the branch that it takes.
func (v *sight) reachedByIf(t *tree) []*tree {
	switch value, _ := evalNode(t.kids[0].node, v.env); value {
	case types.Boolean(true):
		return []*tree{t.kids[0], t.kids[1]}
	case types.Boolean(false):
		return []*tree{t.kids[0], t.kids[2]}
	default:
		return []*tree{t.kids[0]}
	}
}

// textOf returns an expression in the policy's own words, on one line and
// without comments.
func (c *compiled) textOf(t *tree) string {
	if t.to == 0 {
		return t.at.text
	}
	tokens, _ := tokenize(c.source.text[t.from:t.to])
	return clipCondition(sourceOf(tokens))
}

// placeOf returns line and column of an expression's first character.
func (c *compiled) placeOf(t *tree) (line, column int) {
	if t.to == 0 {
		return t.at.line, t.at.column
	}
	before := c.source.text[:t.from]
	last := strings.LastIndexByte(before, '\n')
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[last+1:])
}
