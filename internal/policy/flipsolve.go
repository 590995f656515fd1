package policy

import (
	"cmp"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// maxRepairs bounds how many ways are followed to make one expression true.
const maxRepairs = 8

// repair is a way to make something hold: changes, and the environment in
// which they are made.
type repair struct {
	changes []change
	env     evalEnv
}

func (r repair) with(c change) repair {
	out := repair{changes: merged(r.changes, c), env: r.env}
	c.patch(&out.env)
	return out
}

// solver finds repairs for the conditions of one policy.
type solver struct {
	search *search
	trial  *trial
	policy *compiled
	// demands are what else has to hold. A value that meets them comes before
	// one that would have to be changed again.
	demands []demand
}

// demand is a condition with the value that it shall have.
type demand struct {
	body *tree
	want bool
}

func (s solver) demanding(body *tree, want bool) solver {
	s.demands = append(slices.Clip(s.demands), demand{body, want})
	return s
}

func (s solver) meets(env evalEnv) bool {
	return !slices.ContainsFunc(s.demands, func(d demand) bool {
		value, err := evalNode(d.body.node, env)
		return err != nil || value != types.Boolean(d.want)
	})
}

// repairs returns what may be changed next about a call, as longer lists of
// changes: what lifts the first policy that forbids it, else what makes some
// policy permit it.
func (f *search) repairs(t *trial) [][]change {
	c := t.stands.call
	if c == nil {
		return nil
	}
	context := c.contextOf(allAttributes)
	context["approval"] = t.stands.facts
	start := repair{changes: t.changes, env: c.env(types.NewRecord(context))}
	var found []repair
	if p := f.inTheWay(t, start.env); p != nil {
		found = f.lift(t, p, start)
	} else {
		found = f.permit(t, start)
	}
	var out [][]change
	for _, r := range found {
		if keyOf(r.changes) != keyOf(t.changes) {
			out = append(out, r.changes)
		}
	}
	return append(out, f.morePeople(t)...)
}

// inTheWay returns a policy that errs, or the first forbid that holds.
func (f *search) inTheWay(t *trial, env evalEnv) *compiled {
	for _, p := range t.stands.call.found {
		if len(t.stands.out.errors) > 0 && t.set.fails(p, t.stands.call, env) {
			return p
		}
	}
	for _, p := range t.stands.out.determining {
		if !p.permits() {
			return p
		}
	}
	return nil
}

// fails reports whether a policy in scope errs.
func (s *Set) fails(p *compiled, c *call, env evalEnv) bool {
	if !s.dir.inScope(c.req.Principal, p.ast.Principal) || !s.dir.inScope(c.req.Resource, p.ast.Resource) {
		return false
	}
	for _, cond := range p.conditions() {
		value, err := evalNode(cond.body.node, env)
		if err != nil {
			return true
		}
		if (value == types.Boolean(true)) != cond.when {
			return false
		}
	}
	return false
}

// lift finds what makes a policy not hold.
func (f *search) lift(t *trial, p *compiled, at repair) []repair {
	s := solver{search: f, trial: t, policy: p}
	var out []repair
	for _, cond := range p.conditions() {
		out = append(out, s.solve(at, cond.body, !cond.when)...)
	}
	if in, ok := p.ast.Principal.(scopeIn); ok {
		if c, ok := s.membership(t.stands.call.req.Principal, in.Entity, false); ok {
			out = append(out, at.with(c))
		}
	}
	out = best(out)
	if c, ok := dropPolicy(p); ok {
		out = append(out, repair{changes: merged(at.changes, c)})
	}
	return out
}

// permit finds what makes some permit hold.
func (f *search) permit(t *trial, at repair) []repair {
	var out []repair
	for _, p := range t.set.policies {
		if p.permits() && t.set.dir.inScope(t.stands.call.req.Action, p.ast.Action) {
			s := solver{search: f, trial: t, policy: p}
			out = append(out, s.satisfy(at)...)
		}
	}
	if f.goal == Allow {
		return out // a permit without a human is the last resort; see permitAdded
	}
	if c, ok := t.set.addPermit(t.request, f.goal); ok {
		out = append(out, repair{changes: merged(at.changes, c)})
	}
	return out
}

// satisfy finds what makes the policy hold, its scope included.
func (s solver) satisfy(at repair) []repair {
	req := s.trial.stands.call.req
	for _, scope := range []struct {
		uid  types.EntityUID
		node scopeNode
	}{{req.Principal, s.policy.ast.Principal}, {req.Resource, s.policy.ast.Resource}} {
		if s.trial.set.dir.inScope(scope.uid, scope.node) {
			continue
		}
		in, ok := scope.node.(scopeIn)
		if !ok {
			return nil // another caller or another tool
		}
		c, ok := s.membership(scope.uid, in.Entity, true)
		if !ok {
			return nil
		}
		at = at.with(c)
	}
	found := []repair{at}
	for _, cond := range s.policy.conditions() {
		s = s.demanding(cond.body, cond.when)
	}
	for _, cond := range s.policy.conditions() {
		var next []repair
		for _, r := range found {
			next = append(next, s.solve(r, cond.body, cond.when)...)
		}
		found = best(next)
	}
	return found
}

// best returns the cheapest repairs, the first found among equals.
func best(list []repair) []repair {
	slices.SortStableFunc(list, func(a, b repair) int { return cmp.Compare(costOf(a.changes), costOf(b.changes)) })
	return list[:min(len(list), maxRepairs)]
}

// solve finds what makes a condition have a value.
func (s solver) solve(at repair, t *tree, want bool) []repair {
	if value, err := evalNode(t.node, at.env); err == nil && value == types.Boolean(want) {
		return []repair{at}
	}
	switch t.node.(type) {
	case nodeAnd:
		return s.pair(at, t, want, true)
	case nodeOr:
		return s.pair(at, t, want, false)
	case nodeNot:
		return s.solve(at, t.kids[0], !want)
	case nodeIf:
		return best(append(s.both(at, t.kids[0], true, t.kids[1], want), s.both(at, t.kids[0], false, t.kids[2], want)...))
	default:
		return best(s.leaf(at, t, want))
	}
}

// pair solves a conjunction, or a disjunction: all is the value that takes
// both operands.
func (s solver) pair(at repair, t *tree, want, all bool) []repair {
	if want == all {
		return s.both(at, t.kids[0], want, t.kids[1], want)
	}
	// Either operand does, the second only when the first lets it be reached.
	// Of equals the second comes first: what stands last is mostly what the
	// policy is about.
	return best(append(s.both(at, t.kids[0], all, t.kids[1], want), s.solve(at, t.kids[0], want)...))
}

// both gives two conditions their values, one after the other: the second may
// rest on what the first changed.
func (s solver) both(at repair, first *tree, a bool, second *tree, b bool) []repair {
	var out []repair
	for _, r := range s.demanding(second, b).solve(at, first, a) {
		out = append(out, s.demanding(first, a).solve(r, second, b)...)
	}
	return best(out)
}

// maxValues bounds the values that are followed at one place.
const maxValues = 3

// leaf finds single changes that give an expression without operators of
// logic a value. Whether a change does is tried, not reasoned out.
func (s solver) leaf(at repair, t *tree, want bool) []repair {
	var out []repair
	for _, c := range s.entityChanges(at, t, want) {
		if r := at.with(c); s.gives(r.env, t, want) {
			out = append(out, r)
		}
	}
	for _, chain := range reads(t) {
		p, ok := s.spotOf(chain)
		if ok && p.sort == sortRecord && want {
			p, ok = s.spotOf(append(slices.Clone(chain), "basename")) // some program
		}
		if ok {
			out = append(out, s.values(at, t, p, want)...)
		}
	}
	return out
}

func (s solver) gives(env evalEnv, t *tree, want bool) bool {
	value, err := evalNode(t.node, env)
	return err == nil && value == types.Boolean(want)
}

// values finds the values of one place that do, those first that break nothing
// else: the demands are met, and no other forbid comes to hold.
func (s solver) values(at repair, t *tree, p spot, want bool) []repair {
	rivals := s.rivals(p.chain)
	var good, other []repair
	for _, v := range s.witnesses(at, t, p) {
		if s.search.tries++; s.search.tries > maxTries {
			break
		}
		r := repair{env: at.env}
		patchPlace(&r.env, p.chain[1:], v)
		if !s.gives(r.env, t, want) {
			continue
		}
		r.changes = merged(at.changes, s.set(p, v))
		switch {
		case s.meets(r.env) && !slices.ContainsFunc(rivals, func(c *compiled) bool { return c.holdsIn(r.env) }):
			good = append(good, r)
		case len(other) < maxValues:
			other = append(other, r)
		}
		if len(good) == maxValues {
			return good
		}
	}
	good = append(good, other...)
	return good[:min(len(good), maxValues)]
}

// rivals are the other forbids in scope that read a place.
func (s solver) rivals(chain []string) []*compiled {
	var out []*compiled
	for _, p := range s.trial.stands.call.found {
		if p != s.policy && !p.permits() && p.readsPlace(chain) {
			out = append(out, p)
		}
	}
	return out
}

// readsPlace reports whether a condition reads a place.
func (c *compiled) readsPlace(chain []string) bool {
	for _, cond := range c.conditions() {
		if slices.ContainsFunc(reads(cond.body), func(r []string) bool { return slices.Equal(r, chain) }) {
			return true
		}
	}
	return false
}

// holdsIn reports whether all conditions hold; errors count as holding, as
// they deny.
func (c *compiled) holdsIn(env evalEnv) bool {
	for _, cond := range c.conditions() {
		value, err := evalNode(cond.body.node, env)
		if err != nil {
			return true
		}
		if (value == types.Boolean(true)) != cond.when {
			return false
		}
	}
	return true
}
