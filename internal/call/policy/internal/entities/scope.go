package entities

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
)

// Compare orders entities by type and id.
func Compare(a, b types.EntityUID) int {
	switch {
	case a.Type != b.Type && a.Type < b.Type, a.Type == b.Type && a.ID < b.ID:
		return -1
	case a == b:
		return 0
	default:
		return 1
	}
}

// InScope evaluates a scope clause for one entity.
func (d *Directory) InScope(uid types.EntityUID, scope expr.ScopeNode) bool {
	in := func(e types.EntityUID) bool { return uid == e || slices.Contains(d.Ancestors[uid], e) }
	switch s := scope.(type) {
	case expr.ScopeEq:
		return uid == s.Entity
	case expr.ScopeIn:
		return in(s.Entity)
	case expr.ScopeInSet:
		return slices.ContainsFunc(s.Entities, in)
	case expr.ScopeIs:
		return uid.Type == s.Type
	case expr.ScopeIsIn:
		return uid.Type == s.Type && in(s.Entity)
	default:
		return true
	}
}
