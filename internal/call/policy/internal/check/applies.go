package check

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
)

// checkHas finds tests for attributes that no action in scope has: Cedar silently evaluates
// them to false.
func (c *checker) checkHas(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			has, ok := t.Node.(expr.NodeHas)
			if !ok {
				return true
			}
			chain := t.Kids[0].Chain()
			if chain == nil || chain[0] == "action" {
				return true
			}
			name := string(has.Value)
			if known := c.scopes.attributes(p, chain); !slices.Contains(known, name) {
				f := p.At(t.At, finding.SeverityError, finding.CodeUnknownName, "%s never has an attribute %s", strings.Join(chain, "."), name)
				f.Help = finding.DidYouMean(name, known)
				findings = append(findings, f)
			}
			return true
		})
	}
	return findings
}

// checkPermitsAll finds permits without any bound.
func (c *checker) checkPermitsAll(p *expr.Policy) []finding.Finding {
	if !p.Permits() || p.Notes.Waives != "" && c.scopes.onlyTools(p) {
		return nil
	}
	_, principal := p.AST.Principal.(expr.ScopeAll)
	_, action := p.AST.Action.(expr.ScopeAll)
	if !principal || !action || c.constant().Applies(p) != expr.Yes {
		return nil
	}
	f := p.Start(finding.SeverityError, finding.CodePermitsAll, "this permits every action to every principal, including the API's own actions")
	f.Help = "name the actions, or the principals, or add a condition"
	return []finding.Finding{f}
}

// constant returns a partial request without any known value.
func (c *checker) constant() *expr.Partial {
	return &expr.Partial{
		Env:   expr.Env{Entities: c.set.Entities.Entities},
		Known: func([]string) bool { return false },
	}
}

// checkApplies finds policies that no request can match.
func (c *checker) checkApplies(p *expr.Policy) []finding.Finding {
	possible, actions := false, c.scopes.actionsOf(p)
	if len(actions) == 0 && awaitsUpstream(p.AST.Action) {
		return nil
	}
	for _, action := range actions {
		view := c.constant()
		view.Env.Action = action
		view.Known = expr.Prefixes([]string{"action"})
		possible = possible || view.Applies(p) != expr.No
	}
	if !possible {
		f := p.Start(finding.SeverityError, finding.CodeNeverApplies, "the conditions can never hold, so the policy never applies")
		f.Help = "remove the policy, or correct its conditions"
		return []finding.Finding{f}
	}
	if _, only := c.scopes.reachesTools(p); only && !c.appliesToSomeTool(p) {
		return []finding.Finding{p.Start(finding.SeverityWarning, finding.CodeNeverApplies,
			"the policy applies to none of the pinned tools")}
	}
	return nil
}

func (c *checker) appliesToSomeTool(p *expr.Policy) bool {
	for _, action := range c.scopes.actionsOf(p) {
		name, _ := strings.CutPrefix(string(action.ID), names.ToolPrefix)
		if name == names.UnknownTool {
			continue
		}
		uid := types.NewEntityUID(names.TypeTool, types.String(name))
		if !c.set.Entities.InScope(uid, p.AST.Resource) {
			continue
		}
		view := c.constant()
		view.Env.Action, view.Env.Resource = action, uid
		view.Known = expr.Prefixes([]string{"action"}, []string{"resource"})
		if view.Applies(p) != expr.No {
			return true
		}
	}
	return false
}
