package policy

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/policy/finding"
	"palyra/internal/policy/internal/expr"
)

// checkValues finds texts that a fact is compared with and can never be, so that
// a misspelt forbid would forbid nothing.
func checkValues(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			switch t.Node.(type) {
			case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
				for i, side := range t.Kids {
					for _, fact := range factsIn(side) {
						findings = append(findings, checkLiterals(p, fact, t.Kids[1-i])...)
					}
				}
			}
			return true
		})
	}
	return findings
}

// factsIn returns the facts that an expression is, or has as elements.
func factsIn(t *expr.Tree) []*Fact {
	if chain := t.Chain(); len(chain) > 1 && chain[0] == "context" {
		if fact := FactNamed(strings.Join(chain[1:], ".")); fact != nil {
			return []*Fact{fact}
		}
	}
	var out []*Fact
	for _, k := range expr.ElementsOf(t) {
		out = append(out, factsIn(k)...)
	}
	return out
}

func checkLiterals(p *expr.Policy, fact *Fact, with *expr.Tree) []finding.Finding {
	var findings []finding.Finding
	for _, literal := range expr.Literals(with) {
		if fact.Values == nil || slices.Contains(fact.Values, literal.Text) {
			continue
		}
		f := p.At(literal.At, finding.SeverityError, finding.CodeUnknownValue, "context.%s is never %q", fact.Name, literal.Text)
		if f.Help = finding.DidYouMean(literal.Text, fact.Values); f.Help == "" {
			f.Help = fmt.Sprintf("there are: %q", fact.Values)
		}
		findings = append(findings, f)
	}
	return findings
}
