package policy

import "github.com/cedar-policy/cedar-go/types"

// checkShadows finds policies that another policy leaves without effect: one
// of the same effect that holds whenever it holds, or a forbid that does so
// over a permit.
func (l *linter) checkShadows() []Finding {
	byScope := make(map[string][]*compiled)
	for _, p := range l.set.policies {
		key := scopeText(scopeKey(p.ast.Principal), p.ast.Action, scopeKey(p.ast.Resource))
		byScope[key] = append(byScope[key], p)
	}
	var findings []Finding
	for _, p := range l.set.policies {
		if p.builtin {
			continue
		}
		if by := l.shadowedBy(p, byScope); by != nil {
			f := p.start(SeverityWarning, CodeShadowed,
				"the policy has no effect: %s (%s:%d) holds whenever it holds", by.id, by.source.name, by.line)
			f.Help = "remove it, or mend its scope or conditions"
			findings = append(findings, f)
		}
	}
	return findings
}

func scopeText(principal types.EntityUID, action scopeNode, resource types.EntityUID) string {
	key, _ := scopeActions(action)
	return principal.String() + "|" + key + "|" + resource.String()
}

// shadowedBy looks for a policy under every scope that contains p's.
func (l *linter) shadowedBy(p *compiled, byScope map[string][]*compiled) *compiled {
	for _, principal := range l.widerEntities(p.ast.Principal) {
		for _, action := range l.widerActions(p.ast.Action) {
			for _, resource := range l.widerEntities(p.ast.Resource) {
				for _, other := range byScope[principal+"|"+action+"|"+resource] {
					if covers(other, p) {
						return other
					}
				}
			}
		}
	}
	return nil
}

// widerEntities lists the scope keys that contain a scope's.
func (l *linter) widerEntities(scope scopeNode) []string {
	out := []string{anyEntity.String()}
	add := func(uid types.EntityUID) {
		out = append(out, uid.String())
		for _, up := range l.set.dir.ancestors[uid] {
			out = append(out, up.String())
		}
	}
	switch s := scope.(type) {
	case scopeEq:
		out = append(out, isKey(s.Entity.Type).String())
		add(s.Entity)
	case scopeIn:
		add(s.Entity)
	case scopeIs:
		out = append(out, isKey(s.Type).String())
	case scopeIsIn:
		out = append(out, isKey(s.Type).String())
		add(s.Entity)
	}
	return out
}

func (l *linter) widerActions(scope scopeNode) []string {
	key, wanted := scopeActions(scope)
	out := []string{""}
	if key != "" {
		out = append(out, key)
	}
	if eq, ok := scope.(scopeEq); ok {
		out = append(out, "in "+eq.Entity.String())
		for _, up := range l.set.dir.ancestors[wanted[0]] {
			out = append(out, "in "+up.String())
		}
	}
	return out
}

// covers reports whether a holds whenever b holds and leaves it without
// effect. The scopes are known to fit by their keys; equal keys of different
// operators (== and in, is and is in) are told apart here.
func covers(a, b *compiled) bool {
	if a == b || a.permits() && !b.permits() {
		return false
	}
	if a.permits() == b.permits() && (b.notes.severity != a.notes.severity || b.notes.timeout != a.notes.timeout) {
		return false
	}
	if !scopeWider(a.ast.Principal, b.ast.Principal) || !scopeWider(a.ast.Resource, b.ast.Resource) ||
		!scopeWider(a.ast.Action, b.ast.Action) {
		return false
	}
	theirs := b.conjuncts()
	for _, mine := range a.conjuncts() {
		if !containsConjunct(theirs, mine) {
			return false
		}
	}
	// Of two policies that say the same, only the later has no effect.
	same := a.permits() == b.permits() && len(a.conjuncts()) == len(theirs)
	return !same || a.order < b.order
}

// scopeWider rules out an == or "is in" that stands under a key as wide as
// the other's "in".
func scopeWider(a, b scopeNode) bool {
	switch a := a.(type) {
	case scopeEq:
		eq, ok := b.(scopeEq)
		return ok && eq.Entity == a.Entity
	case scopeIsIn:
		is, ok := b.(scopeIsIn)
		return ok && is.Type == a.Type
	default:
		return true
	}
}

// conjunct is one part of a policy's conditions that must hold (or, from an
// unless, must not).
type conjunct struct {
	when bool
	node astNode
}

func (c *compiled) conjuncts() []conjunct {
	var out []conjunct
	for _, cond := range c.ast.Conditions {
		if cond.Condition {
			out = append(out, splitAnd(cond.Body)...)
		} else {
			out = append(out, conjunct{false, cond.Body})
		}
	}
	return out
}

func splitAnd(n astNode) []conjunct {
	if and, ok := n.(nodeAnd); ok {
		return append(splitAnd(and.Left), splitAnd(and.Right)...)
	}
	return []conjunct{{true, n}}
}

func containsConjunct(list []conjunct, want conjunct) bool {
	for _, c := range list {
		if c.when == want.when && nodesEqual(c.node, want.node) {
			return true
		}
	}
	return false
}
