package lint

import "palyra/internal/call/policy/internal/expr"

// sense is the effect on a decision when an expression becomes true. Both are set if that
// depends on other expressions.
type sense struct {
	// grants: the decision may allow more. refuses: it may allow less, so that a call for which
	// the expression is false evades the policy.
	grants, refuses bool
}

func (s sense) not() sense { return sense{grants: s.refuses, refuses: s.grants} }

var eitherSense = sense{grants: true, refuses: true}

// walkSenses visits the expressions of a policy's conditions, parents first, each with its
// sense. The sense in a forbid's when is the opposite of that in its unless.
func walkSenses(p *expr.Policy, visit func(*expr.Tree, sense)) {
	for _, cond := range p.Conditions() {
		grants := p.Permits() == cond.When
		walkSense(cond.Body, sense{grants: grants, refuses: !grants}, visit)
	}
}

func walkSense(t *expr.Tree, s sense, visit func(*expr.Tree, sense)) {
	own, kids := s, eitherSense
	switch t.Node.(type) {
	case expr.NodeAnd, expr.NodeOr:
		kids = s
	case expr.NodeNot:
		kids = s.not()
	case expr.NodeNotEqual:
		own = s.not()
	case expr.NodeIf:
		walkSense(t.Kids[0], eitherSense, visit)
		walkSense(t.Kids[1], s, visit)
		walkSense(t.Kids[2], s, visit)
		return
	}
	visit(t, own)
	for _, k := range t.Kids {
		walkSense(k, kids, visit)
	}
}
