package expr

import (
	"slices"

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

// ReadsText reports whether a condition reads a place and a condition contains the text, such
// as in a comparison of the two.
func (c *Policy) ReadsText(text string, place ...string) bool {
	return c.Mentions(place...) && c.anywhere(func(t *Tree) bool {
		v, ok := t.Node.(NodeValue)
		return ok && v.Value.Equal(types.String(text))
	})
}
