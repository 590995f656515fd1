package lint

import (
	"fmt"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
)

// checkShadows finds policies that have no effect because of another policy. The other policy
// holds whenever they hold, and has the same effect or is a forbid over a permit.
func checkShadows(view policy.View) []finding.Finding {
	search := newShadows(view)
	var findings []finding.Finding
	for _, p := range view.Policies() {
		if p.Builtin {
			continue
		}
		if by := search.of(p); by != nil {
			f := p.Start(finding.SeverityWarning, finding.CodeShadowed,
				"the policy has no effect: %s (%s:%d) holds whenever it holds", by.ID, by.Source.Name, by.Line)
			f.Help = "remove it, or mend its scope or conditions"
			findings = append(findings, f)
		}
	}
	return findings
}

// shadows finds the policies that cover others. A policy covers another if all its conjuncts
// are among the other's. Each policy is therefore indexed under its scope and its rarest
// conjunct, and looked up under each conjunct of the other policy. The work thus grows with the
// number of policies instead of its square.
type shadows struct {
	view  policy.View
	order map[*expr.Policy]int
	parts map[*expr.Policy][]conjunct
	filed map[shadowKey][]*expr.Policy
	// compared counts the compared pairs.
	compared int
}

// shadowKey is the index key of a policy; part is "" for a policy without conditions.
type shadowKey struct {
	scope, part string
	permits     bool
}

func newShadows(view policy.View) *shadows {
	policies := view.Policies()
	s := &shadows{
		view: view, order: make(map[*expr.Policy]int, len(policies)), parts: make(map[*expr.Policy][]conjunct, len(policies)),
		filed: make(map[shadowKey][]*expr.Policy),
	}
	have := make(map[string]int)
	for i, p := range policies {
		s.order[p], s.parts[p] = i, conjunctsOf(p)
		for _, c := range s.parts[p] {
			have[c.text]++
		}
	}
	for _, p := range policies {
		rarest := ""
		for _, c := range s.parts[p] {
			if rarest == "" || have[c.text] < have[rarest] {
				rarest = c.text
			}
		}
		scope := scopeText(entities.ScopeKey(p.AST.Principal), p.AST.Action, entities.ScopeKey(p.AST.Resource))
		key := shadowKey{scope, rarest, p.Permits()}
		s.filed[key] = append(s.filed[key], p)
	}
	return s
}

func scopeText(principal types.EntityUID, action expr.ScopeNode, resource types.EntityUID) string {
	key, _ := entities.ScopeActions(action)
	return principal.String() + "|" + key + "|" + resource.String()
}

// of returns a policy that covers p, searched under every scope that contains p's.
func (s *shadows) of(p *expr.Policy) *expr.Policy {
	principals, actions, resources := widerEntities(s.view, p.AST.Principal), widerActions(s.view, p.AST.Action), widerEntities(s.view, p.AST.Resource)
	for _, principal := range principals {
		for _, action := range actions {
			for _, resource := range resources {
				if by := s.under(principal+"|"+action+"|"+resource, p); by != nil {
					return by
				}
			}
		}
	}
	return nil
}

// under returns a policy under one scope that covers p.
func (s *shadows) under(scope string, p *expr.Policy) *expr.Policy {
	parts := []string{""}
	for _, c := range s.parts[p] {
		parts = append(parts, c.text)
	}
	effects := []bool{false}
	if p.Permits() {
		effects = []bool{true, false}
	}
	for _, part := range parts {
		for _, permits := range effects {
			for _, other := range s.filed[shadowKey{scope, part, permits}] {
				s.compared++
				if s.covers(other, p) {
					return other
				}
			}
		}
	}
	return nil
}

// widerEntities lists the scope keys that contain a scope's key.
func widerEntities(view policy.View, scope expr.ScopeNode) []string {
	out := []string{entities.AnyEntity.String()}
	add := func(uid types.EntityUID) {
		out = append(out, uid.String())
		for _, up := range view.Above(uid) {
			out = append(out, up.String())
		}
	}
	switch s := scope.(type) {
	case expr.ScopeEq:
		out = append(out, entities.IsKey(s.Entity.Type).String())
		add(s.Entity)
	case expr.ScopeIn:
		add(s.Entity)
	case expr.ScopeIs:
		out = append(out, entities.IsKey(s.Type).String())
	case expr.ScopeIsIn:
		out = append(out, entities.IsKey(s.Type).String())
		add(s.Entity)
	}
	return out
}

func widerActions(view policy.View, scope expr.ScopeNode) []string {
	key, wanted := entities.ScopeActions(scope)
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

// covers reports whether a holds whenever b holds and leaves it without effect. The scopes
// match by their keys; equal keys of different operators (== and in, is and is in) are
// distinguished here.
func (s *shadows) covers(a, b *expr.Policy) bool {
	if a == b || a.Permits() && !b.Permits() {
		return false
	}
	if a.Permits() == b.Permits() && (b.Notes.Severity != a.Notes.Severity || b.Notes.Timeout != a.Notes.Timeout || b.Notes.AskReason != a.Notes.AskReason) {
		return false
	}
	if !scopeWider(a.AST.Principal, b.AST.Principal) || !scopeWider(a.AST.Resource, b.AST.Resource) ||
		!scopeWider(a.AST.Action, b.AST.Action) {
		return false
	}
	theirs := s.parts[b]
	for _, mine := range s.parts[a] {
		if !containsConjunct(theirs, mine) {
			return false
		}
	}
	// Of two equivalent policies, only the later has no effect.
	same := a.Permits() == b.Permits() && len(s.parts[a]) == len(theirs)
	return !same || s.order[a] < s.order[b]
}

// scopeWider reports whether a is at least as wide as b, given that their keys match. It
// distinguishes == and "is in" from a plain "in" with the same key.
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
	// text is equal for equal conjuncts, and may be equal for others.
	text string
}

func newConjunct(when bool, n expr.Node) conjunct {
	return conjunct{when, n, fmt.Sprintf("%t %T %v", when, n, n)}
}

func conjunctsOf(c *expr.Policy) []conjunct {
	var out []conjunct
	for _, cond := range c.AST.Conditions {
		if cond.Condition {
			out = append(out, splitAnd(cond.Body)...)
		} else {
			out = append(out, newConjunct(false, cond.Body))
		}
	}
	return out
}

func splitAnd(n expr.Node) []conjunct {
	if and, ok := n.(expr.NodeAnd); ok {
		return append(splitAnd(and.Left), splitAnd(and.Right)...)
	}
	return []conjunct{newConjunct(true, n)}
}

func containsConjunct(list []conjunct, want conjunct) bool {
	for _, c := range list {
		if c.when == want.when && c.text == want.text && expr.Same(c.node, want.node) {
			return true
		}
	}
	return false
}
