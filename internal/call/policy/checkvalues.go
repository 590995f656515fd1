package policy

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
)

// checkValues finds texts that a fact is compared with and can never be, so that
// a misspelt forbid would forbid nothing.
func (l *linter) checkValues(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			switch t.Node.(type) {
			case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
				for i, side := range t.Kids {
					for _, fact := range factsIn(side) {
						findings = append(findings, checkLiterals(p, fact, l.valuesOf(fact), t.Kids[1-i])...)
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

// valuesOf returns all texts that a fact can be or hold, nil for any. The texts in
// votes are roles and surfaces: a vote asked for by a misspelt role never comes.
func (l *linter) valuesOf(fact *Fact) []string {
	if fact.Name != "approval.votes" {
		return fact.Values
	}
	values := []string{string(names.AnyRole)}
	for _, role := range l.set.vocab.roles {
		values = append(values, string(role))
	}
	return append(values, surfaceNames()...)
}

func checkLiterals(p *expr.Policy, fact *Fact, values []string, with *expr.Tree) []finding.Finding {
	var findings []finding.Finding
	for _, literal := range expr.Literals(with) {
		if values == nil || slices.Contains(values, literal.Text) {
			continue
		}
		verb := "is never"
		if strings.HasPrefix(fact.Type, "Set<") {
			verb = "never holds"
		}
		f := p.At(literal.At, finding.SeverityError, finding.CodeUnknownValue, "context.%s %s %q", fact.Name, verb, literal.Text)
		if f.Help = finding.DidYouMean(literal.Text, values); f.Help == "" {
			f.Help = fmt.Sprintf("there are: %q", values)
		}
		findings = append(findings, f)
	}
	return findings
}
