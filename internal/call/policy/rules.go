package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/vocabulary"
)

// compiled is one policy with precomputed data for evaluation.
type compiled struct {
	*expr.Policy
	// approval is true if a condition contains context.approval.
	approval bool
	// votes is true if a condition contains context.approval.votes.
	votes bool
	// reads are the context attributes that the conditions read.
	reads attributes
	// unread are the facts that the policy must read to cover a call that has them, but does not.
	unread []*Fact
	// wants is the text of the conjuncts that contain context.approval.
	wants       string
	determining Determining
}

// rules are the compiled policies of a set, with the schema and the entities under which Cedar
// evaluates them.
type rules struct {
	policies []*compiled
	byID     map[cedar.PolicyID]*compiled
	index    *index
	vocab    *vocabulary.Vocabulary
	dir      *entities.Directory
}

// outcome is the result of one run of Cedar.
type outcome struct {
	allowed bool
	// determining are sorted by id; cedar-go returns them in random order.
	determining []*compiled
	errors      []string
}

// run evaluates one request, which fits the schema, over its candidates. Any error denies:
// Cedar skips a policy with an error, so a forbid with an error would fail open.
func (r *rules) run(found candidates, known types.EntityGetter, req cedar.Request) outcome {
	decision, diag := cedar.Authorize(found, known, req)
	return r.judge(decision, diag)
}

func (r *rules) judge(decision cedar.Decision, diag cedar.Diagnostic) outcome {
	var out outcome
	for _, e := range diag.Errors {
		out.errors = append(out.errors, string(e.PolicyID)+": "+expr.ClipText(e.Message))
	}
	slices.Sort(out.errors)
	for _, cause := range diag.Reasons {
		if p := r.byID[cause.PolicyID]; p != nil {
			out.determining = append(out.determining, p)
		}
	}
	sortByID(out.determining)
	out.allowed = decision == cedar.Allow && len(out.errors) == 0
	return out
}

func sortByID(list []*compiled) {
	slices.SortFunc(list, func(a, b *compiled) int { return strings.Compare(a.ID, b.ID) })
}

func describe(list []*compiled) []Determining {
	out := make([]Determining, 0, len(list))
	for _, p := range list {
		out = append(out, p.determining)
	}
	return out
}

// describeCauses describes the policies of an ask, each with its conjuncts about the approval.
func describeCauses(list []*compiled) []Determining {
	out := describe(list)
	for i, p := range list {
		if p.wants != "" {
			out[i].Condition = p.wants
		}
	}
	return out
}

// candidates returns the policies that the index finds for a request.
func (r *rules) candidates(req cedar.Request) candidates {
	return r.index.find(
		r.dir.KeysOf(req.Action), r.dir.KeysOf(req.Resource), r.dir.KeysOf(req.Principal),
	)
}

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

// find returns the candidates for a request whose entities have the given keys.
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
