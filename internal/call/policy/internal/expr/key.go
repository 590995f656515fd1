package expr

import "github.com/cedar-policy/cedar-go/types"

// AnyEntity is the key of a scope that names nothing.
var AnyEntity = types.EntityUID{}

// IsKey is the key of a scope that names a type. No entity has this id, because strings of the
// language contain no NUL.
func IsKey(t types.EntityType) types.EntityUID { return types.NewEntityUID(t, "\x00is") }
