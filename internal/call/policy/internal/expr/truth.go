package expr

import "github.com/cedar-policy/cedar-go/types"

// Truth is the value of a condition with partly unknown inputs.
type Truth int

// The values.
const (
	Maybe Truth = iota
	No
	Yes
)

func truthOf(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

func (t Truth) not() Truth {
	switch t {
	case Yes:
		return No
	case No:
		return Yes
	default:
		return Maybe
	}
}

// Partial is a request with partly known values.
type Partial struct {
	Env Env
	// Known reports whether env has the value of a variable and its attributes; other values
	// are unknown.
	Known func(chain []string) bool
	// Assume, unless nil, decides an expression whose value is unknown.
	Assume func(*Tree) Truth
}

// Prefixes returns a Known function for places below any of the given ones.
func Prefixes(list ...[]string) func([]string) bool {
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

// truth evaluates a condition in three values. Yes and no are always correct; maybe includes a
// possible error.
func (v *Partial) truth(t *Tree) Truth {
	switch t.Node.(type) {
	case NodeAnd:
		left := v.truth(t.Kids[0])
		if left == No {
			return No
		}
		right := v.truth(t.Kids[1])
		switch {
		case right == No:
			return v.unlessError(t.Kids[0], No)
		case left == Yes && right == Yes:
			return Yes
		}
		return Maybe
	case NodeOr:
		left := v.truth(t.Kids[0])
		if left == Yes {
			return Yes
		}
		right := v.truth(t.Kids[1])
		switch {
		case left == No:
			return right
		case right == Yes:
			return v.unlessError(t.Kids[0], Yes)
		}
		return Maybe
	case NodeNot:
		return v.truth(t.Kids[0]).not()
	case NodeIf:
		return v.truthIf(t)
	default:
		return v.leaf(t)
	}
}

// unlessError weakens an answer that holds only if t does not fail.
func (v *Partial) unlessError(t *Tree, answer Truth) Truth {
	if canErr(t) {
		return Maybe
	}
	return answer
}

func (v *Partial) truthIf(t *Tree) Truth {
	switch v.truth(t.Kids[0]) {
	case Yes:
		return v.truth(t.Kids[1])
	case No:
		return v.truth(t.Kids[2])
	}
	then, otherwise := v.truth(t.Kids[1]), v.truth(t.Kids[2])
	if then == otherwise {
		return v.unlessError(t.Kids[0], then)
	}
	return Maybe
}

func (v *Partial) leaf(t *Tree) Truth {
	if !v.determined(t) {
		if v.Assume != nil {
			return v.Assume(t)
		}
		return Maybe
	}
	value, err := Eval(t.Node, v.Env)
	if err != nil {
		return Maybe
	}
	if b, ok := value.(types.Boolean); ok {
		return truthOf(bool(b))
	}
	return Maybe
}

// determined reports whether an expression reads only known places.
func (v *Partial) determined(t *Tree) bool {
	if chain := t.Chain(); chain != nil {
		return v.Known(chain)
	}
	if has, ok := t.Node.(NodeHas); ok {
		if chain := t.Kids[0].Chain(); chain != nil {
			return v.Known(append(chain, string(has.Value)))
		}
	}
	for _, k := range t.Kids {
		if !v.determined(k) {
			return false
		}
	}
	return true
}

// Applies evaluates all conditions of a policy.
func (v *Partial) Applies(c *Policy) Truth {
	all := Yes
	for _, cond := range c.Conditions() {
		t := v.truth(cond.Body)
		if !cond.When {
			t = t.not()
		}
		switch t {
		case No:
			return No
		case Maybe:
			all = Maybe
		}
	}
	return all
}

// canErr reports whether a validated expression can still fail: arithmetic and times overflow,
// and a named entity may not exist.
func canErr(t *Tree) bool {
	found := false
	t.Walk(func(t *Tree) bool {
		found = found || RiskOf(t) != ""
		return !found
	})
	return found
}

// RiskOf describes how a node can fail at run time, or returns "".
func RiskOf(t *Tree) string {
	switch n := t.Node.(type) {
	case NodeAdd, NodeSub, NodeMult:
		return "the arithmetic can overflow"
	case NodeNegate:
		return "the negation can overflow"
	case nodeCall:
		if n.Name == "offset" || n.Name == "durationSince" {
			return "the time can overflow"
		}
	case NodeAccess:
		if v, ok := t.Kids[0].Node.(NodeValue); ok {
			if _, entity := v.Value.(types.EntityUID); entity {
				return "the entity may not exist"
			}
		}
	}
	return ""
}
