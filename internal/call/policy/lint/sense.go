package lint

import "palyra/internal/call/policy/internal/expr"

// sense is what becomes of a decision when an expression turns true. Both are set
// where that depends on other expressions.
type sense struct {
	// grants: it may then allow more. refuses: it may then allow less, so that
	// what makes the expression false escapes the policy.
	grants, refuses bool
}

func (s sense) not() sense { return sense{grants: s.refuses, refuses: s.grants} }

var eitherSense = sense{grants: true, refuses: true}

// walkSenses visits the expressions of a policy's conditions, parents first,
// each with its sense: in a forbid's when the opposite of the one in its unless.
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
