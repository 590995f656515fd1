package check

import (
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
)

// trend is the direction in which a value moves when an approval gets stronger. An approval
// gets stronger by another vote, role, surface or proof, by a younger vote, or by votes about
// this call instead of a grant's.
type trend int

const (
	steady  trend = iota // does not depend on the approval
	rising               // false to true, or smaller to larger
	falling              // the reverse
	erratic              // neither
)

func (t trend) reversed() trend {
	switch t {
	case rising:
		return falling
	case falling:
		return rising
	default:
		return t
	}
}

// with combines the trends of two parts that influence a whole in the same way.
func (t trend) with(other trend) trend {
	switch {
	case t == steady:
		return other
	case other == steady || t == other:
		return t
	default:
		return erratic
	}
}

// factTrends are the facts of context.approval.
var factTrends = map[string]trend{
	"granted": rising, "approvers": rising, "by_role": rising, "votes": rising,
	"standing": falling, "age_seconds": falling,
}

// Monotone finds conditions under which a stronger approval could revoke the effect of a
// weaker one. Evaluate tests whether the strongest approval would suffice, which is correct
// only if a stronger approval never hurts.
func Monotone(c *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range c.Conditions() {
		want := rising
		if c.Permits() != cond.When {
			want = falling
		}
		if got := trendOf(cond.Body); got == steady || got == want {
			continue
		}
		at := blame(cond.Body, want)
		f := c.At(at.At, finding.SeverityError, finding.CodeNotMonotone,
			"more or stronger votes could turn this against the call, so the effect of an approval is undefined")
		f.Help = monotoneHelp(c.Permits(), at)
		findings = append(findings, f)
	}
	return findings
}

// blame finds the first part of an expression that moves against want.
func blame(t *expr.Tree, want trend) *expr.Tree {
	for i, k := range t.Kids {
		expected := want
		switch t.Node.(type) {
		case expr.NodeNot, expr.NodeNegate, expr.NodeIsEmpty:
			expected = want.reversed()
		case expr.NodeSub, expr.NodeGreater, expr.NodeGreaterEqual:
			if i == 1 {
				expected = want.reversed()
			}
		case expr.NodeLess, expr.NodeLessEqual:
			if i == 0 {
				expected = want.reversed()
			}
		case expr.NodeAnd, expr.NodeOr, expr.NodeAdd:
		default:
			return factIn(t)
		}
		if got := trendOf(k); got != steady && got != expected {
			return blame(k, expected)
		}
	}
	return factIn(t)
}

// factIn returns the first use of the approval in t, or t itself.
func factIn(t *expr.Tree) *expr.Tree {
	if fact := firstFact(t); fact != nil {
		return fact
	}
	return t
}

func monotoneHelp(permit bool, at *expr.Tree) string {
	name := ""
	if chain := at.Chain(); len(chain) > 2 {
		name = chain[2]
	}
	switch name {
	case "standing":
		return "only refuse standing approvals: forbid ... when { context.approval.standing }"
	case "age_seconds":
		return "only bound the age from above: context.approval.age_seconds <= 300"
	case "approvers", "by_role":
		return "only require a minimum: context.approval.approvers >= 2"
	case "votes":
		return "only require votes: context.approval.votes.contains({ role: \"security\", surface: \"console\", paired: false, present: false })"
	}
	if permit {
		return "a permit may only require approvals, a forbid may only make exceptions for them (unless { context.approval... })"
	}
	return "make an exception for an approval: unless { context.approval... }"
}

// firstFact finds the first use of the approval.
func firstFact(t *expr.Tree) *expr.Tree {
	var found *expr.Tree
	t.Walk(func(t *expr.Tree) bool {
		if found == nil && isFact(t) {
			found = t
		}
		return found == nil
	})
	return found
}

func isFact(t *expr.Tree) bool {
	chain := t.Chain()
	return len(chain) > 2 && chain[0] == "context" && chain[1] == "approval"
}

// trendOf computes how an expression moves.
func trendOf(t *expr.Tree) trend {
	if chain := t.Chain(); chain != nil {
		return chainTrend(chain)
	}
	switch t.Node.(type) {
	case expr.NodeValue:
		return steady
	case expr.NodeNot, expr.NodeNegate, expr.NodeIsEmpty:
		return trendOf(t.Kids[0]).reversed()
	case expr.NodeAnd, expr.NodeOr, expr.NodeAdd:
		return trendOf(t.Kids[0]).with(trendOf(t.Kids[1]))
	case expr.NodeSub, expr.NodeGreater, expr.NodeGreaterEqual:
		return trendOf(t.Kids[0]).with(trendOf(t.Kids[1]).reversed())
	case expr.NodeLess, expr.NodeLessEqual:
		return trendOf(t.Kids[0]).reversed().with(trendOf(t.Kids[1]))
	case expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
		return containmentTrend(t)
	case expr.NodeIf:
		return choiceTrend(t)
	case expr.NodeMult:
		return productTrend(t)
	case expr.NodeEqual:
		return equalityTrend(t, true)
	case expr.NodeNotEqual:
		return equalityTrend(t, false)
	default:
		return touchTrend(t)
	}
}

// chainTrend looks up a place. All places outside the approval are steady; the approval as a
// whole is not.
func chainTrend(chain []string) trend {
	if chain[0] != "context" || len(chain) < 2 || chain[1] != "approval" {
		if len(chain) == 1 && chain[0] == "context" {
			return erratic
		}
		return steady
	}
	if len(chain) > 2 {
		if known, ok := factTrends[chain[2]]; ok {
			return known
		}
	}
	return erratic
}

// containmentTrend rises if the set that is searched belongs to the approval.
func containmentTrend(t *expr.Tree) trend {
	set, want := trendOf(t.Kids[0]), touchTrend(t.Kids[1])
	if want != steady {
		return erratic
	}
	return set
}

func choiceTrend(t *expr.Tree) trend {
	if trendOf(t.Kids[0]) != steady {
		return erratic
	}
	return trendOf(t.Kids[1]).with(trendOf(t.Kids[2]))
}

// productTrend keeps a trend if the other factor is a constant with a known sign.
func productTrend(t *expr.Tree) trend {
	a, b := trendOf(t.Kids[0]), trendOf(t.Kids[1])
	if a == steady && b == steady {
		return steady
	}
	for i, other := range []trend{b, a} {
		if v, ok := t.Kids[i].Node.(expr.NodeValue); ok {
			if n, ok := v.Value.(types.Long); ok && n >= 0 {
				return other
			}
		}
	}
	return erratic
}

// equalityTrend allows only the comparison of a boolean with a literal.
func equalityTrend(t *expr.Tree, equal bool) trend {
	for i := range t.Kids {
		v, ok := t.Kids[i].Node.(expr.NodeValue)
		if !ok {
			continue
		}
		if b, ok := v.Value.(types.Boolean); ok {
			other := trendOf(t.Kids[1-i])
			if bool(b) == equal {
				return other
			}
			return other.reversed()
		}
	}
	if touchTrend(t.Kids[0]) == steady && touchTrend(t.Kids[1]) == steady {
		return steady
	}
	return erratic
}

// touchTrend is steady for expressions that do not read the approval, otherwise erratic.
func touchTrend(t *expr.Tree) trend {
	touched := false
	t.Walk(func(t *expr.Tree) bool {
		chain := t.Chain()
		switch {
		case len(chain) == 1 && chain[0] == "context",
			len(chain) > 1 && chain[0] == "context" && chain[1] == "approval":
			touched = true
		}
		if _, ok := t.Node.(expr.NodeHas); ok && t.Kids[0].Chain() != nil {
			return false
		}
		return !touched && chain == nil
	})
	if touched {
		return erratic
	}
	return steady
}
