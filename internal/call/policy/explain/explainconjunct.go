package explain

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/tool"
)

// policies explains every policy in scope, starting with the determining ones.
func (v *sight) policies(determining []policy.Determining) []Policy {
	rests := make(map[string]bool, len(determining))
	for _, d := range determining {
		rests[d.ID] = true
	}
	var first, others []Policy
	for _, p := range v.call.Policies {
		e := v.policy(p)
		if e.Determining = rests[p.ID]; e.Determining {
			first = append(first, e)
		} else {
			others = append(others, e)
		}
	}
	return append(first, others...)
}

func (v *sight) policy(p *expr.Policy) Policy {
	out := Policy{
		ID: p.ID, File: p.Source.Name, Line: p.Line, Effect: expr.EffectWord(p.Permits()), Outcome: OutcomeSatisfied,
		Reason: p.Notes.Reason, Remedy: p.Notes.Remedy,
	}
	for _, cond := range p.Conditions() {
		held := v.clause(p, cond, out.Outcome == OutcomeSatisfied, &out.Conjuncts)
		switch {
		case out.Outcome != OutcomeSatisfied:
		case held == OutcomeError:
			out.Outcome = OutcomeError
		case (held == OutcomeTrue) != cond.When:
			out.Outcome = OutcomeNotSatisfied
		}
	}
	for _, name := range policy.Unread(p, &v.request) {
		out.Conjuncts = append(out.Conjuncts, Conjunct{
			Text: unreadText(name), Line: p.Line, Column: 1, Clause: clauseWord(true), Outcome: OutcomeFalse,
			Values: []Value{{Path: "context." + name, Value: valueText(v.valueAt(append([]string{"context"}, strings.Split(name, ".")...)))}},
		})
		if out.Outcome == OutcomeSatisfied {
			out.Outcome = OutcomeNotSatisfied
		}
	}
	return out
}

// unreadText names the fact that a permit without an approval must read to cover the call.
func unreadText(name string) string {
	if name == "exec.inline_code" {
		return "the permit reads context.exec.inline_code, which is true"
	}
	return fmt.Sprintf("the permit reads context.%s, which is not empty", name)
}

// clause explains the conjuncts of one when or unless and returns their combined outcome.
func (v *sight) clause(p *expr.Policy, cond expr.Condition, reached bool, into *[]Conjunct) string {
	held := OutcomeTrue
	for _, t := range expr.SplitTree(cond.Body) {
		e := v.explain(p, t, reached && held == OutcomeTrue)
		e.Clause = clauseWord(cond.When)
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

// explain evaluates an expression and the parts of a composite one.
func (v *sight) explain(p *expr.Policy, t *expr.Tree, reached bool) Conjunct {
	out := Conjunct{Text: p.TextOf(t), Outcome: OutcomeSkipped}
	out.Line, out.Column = p.PlaceOf(t)
	kids := expr.PartsOf(t)
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

// reaches reports whether Cedar would evaluate part i of t, given the outcomes of the parts
// before it.
func (e *Conjunct) reaches(t *expr.Tree, i int) bool {
	if i == 0 {
		return true
	}
	switch t.Node.(type) {
	case expr.NodeOr:
		return e.Parts[i-1].Outcome == OutcomeFalse
	case expr.NodeAnd:
		return e.Parts[i-1].Outcome == OutcomeTrue
	case expr.NodeIf:
		return i == 1 && e.Parts[0].Outcome == OutcomeTrue || i == 2 && e.Parts[0].Outcome == OutcomeFalse
	default:
		return true
	}
}

func (v *sight) explainLeaf(p *expr.Policy, t *expr.Tree, reached bool, out *Conjunct) {
	for _, chain := range expr.Reads(t) {
		out.Values = append(out.Values, Value{Path: strings.Join(chain, "."), Value: valueText(v.valueAt(chain))})
	}
	if reached {
		out.Outcome, out.Error = v.outcome(p, t)
	}
}

// outcome evaluates a condition; after an error, failure names the failed part.
func (v *sight) outcome(p *expr.Policy, t *expr.Tree) (outcome, failure string) {
	value, err := expr.Eval(t.Node, v.env)
	if err != nil {
		at, err := v.failing(t, err)
		return OutcomeError, tool.RedactText(expr.ClipText(p.TextOf(at) + ": " + err.Error()))
	}
	if value == types.Boolean(true) {
		return OutcomeTrue, ""
	}
	return OutcomeFalse, ""
}

// failing finds the smallest part that fails, with its error.
func (v *sight) failing(t *expr.Tree, err error) (*expr.Tree, error) {
	kids := t.Kids
	if _, ok := t.Node.(expr.NodeIf); ok {
		kids = v.reachedByIf(t)
	}
	for _, k := range kids {
		if _, inner := expr.Eval(k.Node, v.env); inner != nil {
			return v.failing(k, inner)
		}
	}
	return t, err
}

// reachedByIf returns the condition of an if and the branch that it takes.
func (v *sight) reachedByIf(t *expr.Tree) []*expr.Tree {
	switch value, _ := expr.Eval(t.Kids[0].Node, v.env); value {
	case types.Boolean(true):
		return []*expr.Tree{t.Kids[0], t.Kids[1]}
	case types.Boolean(false):
		return []*expr.Tree{t.Kids[0], t.Kids[2]}
	default:
		return []*expr.Tree{t.Kids[0]}
	}
}
