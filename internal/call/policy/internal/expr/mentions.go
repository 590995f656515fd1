package expr

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// Mentions reports whether a condition reads a place.
func (c *Policy) Mentions(place ...string) bool {
	return c.anywhere(func(t *Tree) bool { return slices.Equal(t.Chain(), place) })
}

// anywhere reports whether is returns true for any part of a condition.
func (c *Policy) anywhere(is func(*Tree) bool) bool {
	found := false
	for _, cond := range c.Conditions() {
		cond.Body.Walk(func(t *Tree) bool {
			found = found || is(t)
			return !found
		})
	}
	return found
}

// Permits reports whether the policy is a permit.
func (c *Policy) Permits() bool { return c.Cedar.Effect() == cedar.Permit }

// IsKey is the key of a scope that names a type. No entity has this id, because strings of the
// language contain no NUL.
func IsKey(t types.EntityType) types.EntityUID { return types.NewEntityUID(t, "\x00is") }

// AnyEntity is the key of a scope that names nothing.
var AnyEntity = types.EntityUID{}
