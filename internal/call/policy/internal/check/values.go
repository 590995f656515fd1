package check

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
)

// Texts are all texts that a fact can equal or, if the fact is a set, contain.
type Texts struct {
	Values []string
	Set    bool
}

// checkValues finds texts that a fact is compared with but can never equal, because a misspelt
// forbid would forbid nothing.
func checkValues(p *expr.Policy, texts map[string]Texts) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			switch t.Node.(type) {
			case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
				for i, side := range t.Kids {
					for _, fact := range factsIn(side, texts) {
						findings = append(findings, checkLiterals(p, fact, texts[fact], t.Kids[1-i])...)
					}
				}
			}
			return true
		})
	}
	return findings
}

// factsIn returns the fact in texts that an expression reads, or the facts among its elements.
func factsIn(t *expr.Tree, texts map[string]Texts) []string {
	if chain := t.Chain(); len(chain) > 1 && chain[0] == "context" {
		fact := strings.Join(chain[1:], ".")
		if _, known := texts[fact]; known {
			return []string{fact}
		}
	}
	var out []string
	for _, k := range expr.ElementsOf(t) {
		out = append(out, factsIn(k, texts)...)
	}
	return out
}

func checkLiterals(p *expr.Policy, fact string, texts Texts, with *expr.Tree) []finding.Finding {
	var findings []finding.Finding
	for _, literal := range expr.Literals(with) {
		if slices.Contains(texts.Values, literal.Text) {
			continue
		}
		verb := "is never"
		if texts.Set {
			verb = "never holds"
		}
		f := p.At(literal.At, finding.SeverityError, finding.CodeUnknownValue, "context.%s %s %q", fact, verb, literal.Text)
		if f.Help = finding.DidYouMean(literal.Text, texts.Values); f.Help == "" {
			f.Help = fmt.Sprintf("there are: %q", texts.Values)
		}
		findings = append(findings, f)
	}
	return findings
}
