package lint

import (
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/policy"
	"palyra/internal/policy/finding"
	"palyra/internal/policy/internal/expr"
)

// checkShadows finds policies that another policy leaves without effect: one
// of the same effect that holds whenever it holds, or a forbid that does so
// over a permit.
func checkShadows(view policy.View) []finding.Finding {
	policies := view.Policies()
	order := make(map[*expr.Policy]int, len(policies))
	byScope := make(map[string][]*expr.Policy)
	for i, p := range policies {
		order[p] = i
		key := scopeText(expr.ScopeKey(p.AST.Principal), p.AST.Action, expr.ScopeKey(p.AST.Resource))
		byScope[key] = append(byScope[key], p)
	}
	var findings []finding.Finding
	for _, p := range policies {
		if p.Builtin {
			continue
		}
		if by := shadowedBy(view, p, byScope, order); by != nil {
			f := p.Start(finding.SeverityWarning, finding.CodeShadowed,
				"the policy has no effect: %s (%s:%d) holds whenever it holds", by.ID, by.Source.Name, by.Line)
			f.Help = "remove it, or mend its scope or conditions"
			findings = append(findings, f)
		}
	}
	return findings
}

func scopeText(principal types.EntityUID, action expr.ScopeNode, resource types.EntityUID) string {
	key, _ := expr.ScopeActions(action)
	return principal.String() + "|" + key + "|" + resource.String()
}

// shadowedBy looks for a policy under every scope that contains p's.
func shadowedBy(view policy.View, p *expr.Policy, byScope map[string][]*expr.Policy, order map[*expr.Policy]int) *expr.Policy {
	for _, principal := range widerEntities(view, p.AST.Principal) {
		for _, action := range widerActions(view, p.AST.Action) {
			for _, resource := range widerEntities(view, p.AST.Resource) {
				for _, other := range byScope[principal+"|"+action+"|"+resource] {
					if covers(other, p, order) {
						return other
					}
				}
			}
		}
	}
	return nil
}

// widerEntities lists the scope keys that contain a scope's.
func widerEntities(view policy.View, scope expr.ScopeNode) []string {
	out := []string{expr.AnyEntity.String()}
	add := func(uid types.EntityUID) {
		out = append(out, uid.String())
		for _, up := range view.Above(uid) {
			out = append(out, up.String())
		}
	}
	switch s := scope.(type) {
	case expr.ScopeEq:
		out = append(out, expr.IsKey(s.Entity.Type).String())
		add(s.Entity)
	case expr.ScopeIn:
		add(s.Entity)
	case expr.ScopeIs:
		out = append(out, expr.IsKey(s.Type).String())
	case expr.ScopeIsIn:
		out = append(out, expr.IsKey(s.Type).String())
		add(s.Entity)
	}
	return out
}

func widerActions(view policy.View, scope expr.ScopeNode) []string {
	key, wanted := expr.ScopeActions(scope)
	out := []string{""}
	if key != "" {
		out = append(out, key)
	}
	if eq, ok := scope.(expr.ScopeEq); ok {
		out = append(out, "in "+eq.Entity.String())
		for _, up := range view.Above(wanted[0]) {
			out = append(out, "in "+up.String())
		}
	}
	return out
}

// covers reports whether a holds whenever b holds and leaves it without
// effect. The scopes are known to fit by their keys; equal keys of different
// operators (== and in, is and is in) are told apart here.
func covers(a, b *expr.Policy, order map[*expr.Policy]int) bool {
	if a == b || a.Permits() && !b.Permits() {
		return false
	}
	if a.Permits() == b.Permits() && (b.Notes.Severity != a.Notes.Severity || b.Notes.Timeout != a.Notes.Timeout) {
		return false
	}
	if !scopeWider(a.AST.Principal, b.AST.Principal) || !scopeWider(a.AST.Resource, b.AST.Resource) ||
		!scopeWider(a.AST.Action, b.AST.Action) {
		return false
	}
	theirs := conjunctsOf(b)
	for _, mine := range conjunctsOf(a) {
		if !containsConjunct(theirs, mine) {
			return false
		}
	}
	// Of two policies that say the same, only the later has no effect.
	same := a.Permits() == b.Permits() && len(conjunctsOf(a)) == len(theirs)
	return !same || order[a] < order[b]
}

// scopeWider rules out an == or "is in" that stands under a key as wide as
// the other's "in".
func scopeWider(a, b expr.ScopeNode) bool {
	switch a := a.(type) {
	case expr.ScopeEq:
		eq, ok := b.(expr.ScopeEq)
		return ok && eq.Entity == a.Entity
	case expr.ScopeIsIn:
		is, ok := b.(expr.ScopeIsIn)
		return ok && is.Type == a.Type
	default:
		return true
	}
}

// conjunct is one part of a policy's conditions that must hold (or, from an
// unless, must not).
type conjunct struct {
	when bool
	node expr.Node
}

func conjunctsOf(c *expr.Policy) []conjunct {
	var out []conjunct
	for _, cond := range c.AST.Conditions {
		if cond.Condition {
			out = append(out, splitAnd(cond.Body)...)
		} else {
			out = append(out, conjunct{false, cond.Body})
		}
	}
	return out
}

func splitAnd(n expr.Node) []conjunct {
	if and, ok := n.(expr.NodeAnd); ok {
		return append(splitAnd(and.Left), splitAnd(and.Right)...)
	}
	return []conjunct{{true, n}}
}

func containsConjunct(list []conjunct, want conjunct) bool {
	for _, c := range list {
		if c.when == want.when && expr.Same(c.node, want.node) {
			return true
		}
	}
	return false
}
