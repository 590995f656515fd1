// Package lint warns of policies that load but do not have the apparent effect. Such a policy
// can fail at run time, can be evaded by another spelling of a path, or has no effect because
// of another policy. It reads a policy.View. Errors that prevent loading are found by package
// policy.
package lint

import (
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
)

// Check returns all findings about a configuration, errors and warnings, in
// the order of the sources.
func Check(cfg policy.Config) []finding.Finding { return Add(policy.Examine(cfg)) }

// Set returns the warnings about a loaded set.
func Set(s *policy.Set) []finding.Finding { return Add(s.View(), s.Findings()) }

// Add adds warnings to earlier findings, in the order of the sources.
func Add(view policy.View, found []finding.Finding) []finding.Finding {
	found = append(found, warningsOf(view, found)...)
	order := map[string]int{}
	for _, src := range append(policy.Defaults(), view.Config().Sources...) {
		order[src.Name] = len(order) + 1
	}
	finding.Sort(found, order)
	return found
}

// warningsOf checks only policies without findings: a first mistake would be reported twice.
func warningsOf(view policy.View, found []finding.Finding) []finding.Finding {
	wrong := map[string]bool{}
	for _, f := range found {
		if f.PolicyID != "" && f.Severity == finding.SeverityError {
			wrong[f.PolicyID] = true
		}
	}
	var out []finding.Finding
	for _, p := range view.Policies() {
		if wrong[p.ID] {
			continue
		}
		out = append(out, checkRisks(p)...)
		out = append(out, checkSpelling(p)...)
		out = append(out, checkCommandLine(p)...)
		out = append(out, checkAmong(p)...)
		out = append(out, checkForms(p)...)
		out = append(out, checkActions(p)...)
	}
	out = append(out, checkLines(view)...)
	if len(wrong) == 0 {
		out = append(out, checkShadows(view)...)
	}
	return out
}

// checkRisks finds expressions that can fail at run time although they validate. A policy that
// fails denies every call for which it is evaluated.
func checkRisks(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			if risk := expr.RiskOf(t); risk != "" {
				f := p.At(t.At, finding.SeverityWarning, finding.CodeMayError, "%s, and a %s that errs denies the call", risk, expr.EffectWord(p.Permits()))
				f.Help = "compare values directly, or bound them first"
				findings = append(findings, f)
				return false
			}
			return true
		})
	}
	return findings
}
