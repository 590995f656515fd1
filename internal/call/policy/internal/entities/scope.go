package entities

import (
	"slices"
	"strings"

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

// ScopeKey returns the entity that an entity of a request must equal or be a descendant of. It
// returns IsKey for a scope that only names a type, and AnyEntity for one that names nothing.
func ScopeKey(scope expr.ScopeNode) types.EntityUID {
	switch s := scope.(type) {
	case expr.ScopeEq:
		return s.Entity
	case expr.ScopeIn:
		return s.Entity
	case expr.ScopeIs:
		return IsKey(s.Type)
	case expr.ScopeIsIn:
		return s.Entity
	default:
		return AnyEntity
	}
}

// ScopeActions returns the actions that a scope names, nil for all.
func ScopeActions(scope expr.ScopeNode) (key string, actions []types.EntityUID) {
	switch s := scope.(type) {
	case expr.ScopeEq:
		return "== " + s.Entity.String(), []types.EntityUID{s.Entity}
	case expr.ScopeIn:
		return "in " + s.Entity.String(), []types.EntityUID{s.Entity}
	case expr.ScopeInSet:
		var b strings.Builder
		b.WriteString("in [")
		for _, e := range s.Entities {
			b.WriteString(e.String())
			b.WriteByte(',')
		}
		if s.Entities == nil {
			return b.String(), []types.EntityUID{}
		}
		return b.String(), s.Entities
	default:
		return "", nil
	}
}
