package policy

import (
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// index finds the policies whose scope can match a request, by action, then resource, then
// principal. It only narrows the search: Cedar still checks each scope. A superfluous candidate
// only costs time, but a missing one would be a bug. A fuzz test compares the index with the
// plain authorizer.
type index struct {
	byAction map[types.EntityUID]byResource
	policies []*compiled
}

type (
	byResource  map[types.EntityUID]byPrincipal
	byPrincipal map[types.EntityUID][]int
)

// candidates are policies that may match a request, in the order of the set.
type candidates []*compiled

// All implements cedar.PolicyIterator.
func (c candidates) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, p := range c {
			if !yield(cedar.PolicyID(p.ID), p.Cedar) {
				return
			}
		}
	}
}

// covering removes the policies that do not cover the call.
func (c candidates) covering(r *Request) candidates {
	if r.Facts.Exec == nil {
		return c
	}
	return slices.DeleteFunc(c, func(p *compiled) bool {
		return slices.ContainsFunc(p.unread, func(f *Fact) bool { return f.isPresent(r) })
	})
}

// isPresent reports whether a call that starts a program has a fact of mustRead.
func (f *Fact) isPresent(r *Request) bool {
	switch value := f.at(r).(type) {
	case *[]string:
		return len(*value) > 0
	case *bool:
		return *value && r.Facts.Shell == nil
	}
	return false
}

// find returns the candidates for a request whose entities have the given
// keys.
func (x *index) find(actions, resources, principals []types.EntityUID) candidates {
	found := make([]int, 0, 32)
	for _, a := range actions {
		byRes := x.byAction[a]
		if byRes == nil {
			continue
		}
		for _, r := range resources {
			byPrin := byRes[r]
			if byPrin == nil {
				continue
			}
			for _, p := range principals {
				found = append(found, byPrin[p]...)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	out := make(candidates, len(found))
	for i, n := range found {
		out[i] = x.policies[n]
	}
	return out
}
