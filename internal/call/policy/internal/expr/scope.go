package expr

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// ScopeActions returns the actions that a scope names, nil for all.
func ScopeActions(scope ScopeNode) (key string, actions []types.EntityUID) {
	switch s := scope.(type) {
	case ScopeEq:
		return "== " + s.Entity.String(), []types.EntityUID{s.Entity}
	case ScopeIn:
		return "in " + s.Entity.String(), []types.EntityUID{s.Entity}
	case ScopeInSet:
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

// ScopeKey returns the entity that an entity of a request must equal or be a descendant of. It
// returns IsKey for a scope that only names a type, and AnyEntity for one that names nothing.
func ScopeKey(scope ScopeNode) types.EntityUID {
	switch s := scope.(type) {
	case ScopeEq:
		return s.Entity
	case ScopeIn:
		return s.Entity
	case ScopeIs:
		return IsKey(s.Type)
	case ScopeIsIn:
		return s.Entity
	default:
		return AnyEntity
	}
}
