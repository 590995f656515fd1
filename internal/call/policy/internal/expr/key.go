package expr

import "github.com/cedar-policy/cedar-go/types"

// AnyEntity is the key of a scope that names nothing.
var AnyEntity = types.EntityUID{}

// IsKey is the key of a scope that names a type. No entity has this id, because strings of the
// language contain no NUL.
func IsKey(t types.EntityType) types.EntityUID { return types.NewEntityUID(t, "\x00is") }

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
