package policy

import (
	"github.com/cedar-policy/cedar-go/types"
)

// truth is a condition's value when not everything is known.
type truth int

const (
	maybe truth = iota
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	default:
		return maybe
	}
}

// partialView is a request of which only some places are known.
type partialView struct {
	env evalEnv
	// known reports whether the value behind variable and attributes is the
	// one in env; what it denies could be anything.
	known func(chain []string) bool
	// assume, unless nil, settles an expression whose value is not known.
	assume func(*tree) truth
}

// prefixes returns a known function for places below any of the given ones.
func prefixes(list ...[]string) func([]string) bool {
	return func(chain []string) bool {
		for _, p := range list {
			if len(chain) >= len(p) && equalStrings(chain[:len(p)], p) {
				return true
			}
		}
		return false
	}
}

func equalStrings(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// truth evaluates a condition in three values. It is never wrong about yes
// and no, and says maybe for what may also be an error.
func (v *partialView) truth(t *tree) truth {
	switch t.node.(type) {
	case nodeAnd:
		left := v.truth(t.kids[0])
		if left == no {
			return no
		}
		right := v.truth(t.kids[1])
		switch {
		case right == no:
			return v.unlessError(t.kids[0], no)
		case left == yes && right == yes:
			return yes
		}
		return maybe
	case nodeOr:
		left := v.truth(t.kids[0])
		if left == yes {
			return yes
		}
		right := v.truth(t.kids[1])
		switch {
		case left == no:
			return right
		case right == yes:
			return v.unlessError(t.kids[0], yes)
		}
		return maybe
	case nodeNot:
		return v.truth(t.kids[0]).not()
	case nodeIf:
		return v.truthIf(t)
	default:
		return v.leaf(t)
	}
}

// unlessError weakens an answer that holds only if t does not err.
func (v *partialView) unlessError(t *tree, answer truth) truth {
	if canErr(t) {
		return maybe
	}
	return answer
}

func (v *partialView) truthIf(t *tree) truth {
	switch v.truth(t.kids[0]) {
	case yes:
		return v.truth(t.kids[1])
	case no:
		return v.truth(t.kids[2])
	}
	then, otherwise := v.truth(t.kids[1]), v.truth(t.kids[2])
	if then == otherwise {
		return v.unlessError(t.kids[0], then)
	}
	return maybe
}

func (v *partialView) leaf(t *tree) truth {
	if !v.determined(t) {
		if v.assume != nil {
			return v.assume(t)
		}
		return maybe
	}
	value, err := evalNode(t.node, v.env)
	if err != nil {
		return maybe
	}
	if b, ok := value.(types.Boolean); ok {
		return truthOf(bool(b))
	}
	return maybe
}

// determined reports whether an expression reads only known places.
func (v *partialView) determined(t *tree) bool {
	if chain := t.chain(); chain != nil {
		return v.known(chain)
	}
	if has, ok := t.node.(nodeHas); ok {
		if chain := t.kids[0].chain(); chain != nil {
			return v.known(append(chain, string(has.Value)))
		}
	}
	for _, k := range t.kids {
		if !v.determined(k) {
			return false
		}
	}
	return true
}

// applies evaluates all conditions of a policy.
func (v *partialView) applies(c *compiled) truth {
	all := yes
	for _, cond := range c.conditions() {
		t := v.truth(cond.body)
		if !cond.when {
			t = t.not()
		}
		switch t {
		case no:
			return no
		case maybe:
			all = maybe
		}
	}
	return all
}

// canErr reports whether a validated expression can still fail: arithmetic
// and times overflow, and an entity that is named may not exist.
func canErr(t *tree) bool {
	found := false
	t.walk(func(t *tree) bool {
		found = found || riskOf(t) != ""
		return !found
	})
	return found
}

// riskOf says how a node can fail at run time, or "".
func riskOf(t *tree) string {
	switch n := t.node.(type) {
	case nodeAdd, nodeSub, nodeMult:
		return "the arithmetic can overflow"
	case nodeNegate:
		return "the negation can overflow"
	case nodeCall:
		if n.Name == "offset" || n.Name == "durationSince" {
			return "the time can overflow"
		}
	case nodeAccess:
		if v, ok := t.kids[0].node.(nodeValue); ok {
			if _, entity := v.Value.(types.EntityUID); entity {
				return "the entity may not exist"
			}
		}
	}
	return ""
}
