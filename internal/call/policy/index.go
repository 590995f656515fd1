package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
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

func buildIndex(policies []*compiled) *index {
	x := &index{byAction: make(map[types.EntityUID]byResource), policies: policies}
	for i, p := range policies {
		resource, principal := expr.ScopeKey(p.AST.Resource), expr.ScopeKey(p.AST.Principal)
		for _, action := range actionKeys(p.AST.Action) {
			x.add(action, resource, principal, i)
		}
	}
	return x
}

func (x *index) add(action, resource, principal types.EntityUID, i int) {
	resources := x.byAction[action]
	if resources == nil {
		resources = make(byResource)
		x.byAction[action] = resources
	}
	principals := resources[resource]
	if principals == nil {
		principals = make(byPrincipal)
		resources[resource] = principals
	}
	principals[principal] = append(principals[principal], i)
}

// actionKeys returns the keys of an action scope; a set has one key per member.
func actionKeys(scope expr.ScopeNode) []types.EntityUID {
	if s, ok := scope.(expr.ScopeInSet); ok {
		keys := slices.Clone(s.Entities)
		slices.SortFunc(keys, compareUID)
		return slices.Compact(keys)
	}
	return []types.EntityUID{expr.ScopeKey(scope)}
}

func compareUID(a, b types.EntityUID) int {
	switch {
	case a.Type != b.Type && a.Type < b.Type, a.Type == b.Type && a.ID < b.ID:
		return -1
	case a == b:
		return 0
	default:
		return 1
	}
}

// requestKeys returns the keys of the policies that may apply to uid.
func requestKeys(uid types.EntityUID, ancestors []types.EntityUID) []types.EntityUID {
	keys := make([]types.EntityUID, 0, len(ancestors)+3)
	keys = append(keys, expr.AnyEntity, uid, expr.IsKey(uid.Type))
	return append(keys, ancestors...)
}

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

// mustRead lists facts of a call. A permit without an approval covers a call with such a fact
// only if it reads the fact. Otherwise a permit for a harmless command line could also cover a
// harmful call with the same line.
var mustRead = []string{"exec.env", "exec.starts", "exec.inline_code"}

// Unread returns the facts of a call that p must read to cover the call but does not. The rule
// applies if p waives an approval. The facts are variables outside the allow list, further
// programs that the program starts, and code that is passed to an interpreter. For a shell
// line, which is itself inline code, context.shell describes its uncertain parts. The permit of
// allow_sensitive_tools covers everything.
func Unread(p *expr.Policy, r *Request) []string {
	if r.Facts.Exec == nil || !p.Permits() || p.Notes.Waives == "" || p.Builtin {
		return nil
	}
	var unread []string
	for _, name := range mustRead {
		if isPresent(r, name) && !p.Mentions(append([]string{"context"}, strings.Split(name, ".")...)...) {
			unread = append(unread, name)
		}
	}
	return unread
}

// isPresent reports whether the call has a fact of mustRead.
func isPresent(r *Request, name string) bool {
	switch value := FactNamed(name).at(r).(type) {
	case *[]string:
		return len(*value) > 0
	case *bool:
		return *value && r.Facts.Shell == nil
	}
	return false
}

// covering removes the policies that do not cover the call.
func (c candidates) covering(r *Request) candidates {
	if r.Facts.Exec == nil {
		return c
	}
	return slices.DeleteFunc(c, func(p *compiled) bool { return len(Unread(p.Policy, r)) > 0 })
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
