package policy

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go/types"
)

// Bounds of the values that are tried at one place.
const (
	maxWitnesses = 400
	maxCompared  = 12 // expressions whose values are tried
)

// witnesses proposes values for a place that may give an expression the value
// that it lacks, the closest to what is there first. They come from what this
// and other expressions compare the place with. The caller tries them.
func (s solver) witnesses(at repair, t *tree, p spot) []types.Value {
	now := placeValue(at.env, p.chain)
	near := s.comparedWith(t, p.chain)
	var out []types.Value
	switch p.sort {
	case sortBool:
		out = []types.Value{types.Boolean(now != types.Boolean(true))}
	case sortLong:
		out = s.longs(at, t, p, now, near)
	case sortString:
		out = texting(at, p, now, near)
	case sortSet:
		out = sets(at, p, now, near)
	case sortEntity:
		out = s.entities(p, near)
	case sortTime:
		out = times(now, near)
	}
	if p.optional && now != nil {
		out = append(out, nil)
	}
	return out[:min(len(out), maxWitnesses)]
}

// placeValue returns what stands at a place of the context, nil for nothing.
func placeValue(env evalEnv, chain []string) types.Value {
	at := env.Context
	for _, name := range chain[1:] {
		at = attributeOf(at, types.String(name), env.Entities)
	}
	return at
}

// comparedWith returns the expressions that read a place: the one given, then
// those of its policy, then those of every policy in scope.
func (s solver) comparedWith(t *tree, chain []string) []*tree {
	out := []*tree{t}
	add := func(p *compiled) {
		for _, cond := range p.conditions() {
			cond.body.walk(func(k *tree) bool {
				if partsOf(k) != nil {
					return true
				}
				if k != t && slices.ContainsFunc(reads(k), func(c []string) bool { return slices.Equal(c, chain) }) {
					out = append(out, k)
				}
				return dottedAnd(k)
			})
		}
	}
	add(s.policy)
	for _, p := range s.trial.stands.call.found {
		if p != s.policy {
			add(p)
		}
	}
	return out[:min(len(out), maxCompared)]
}

// dottedAnd lets a walk go into "x has a.b".
func dottedAnd(t *tree) bool {
	_, and := t.node.(nodeAnd)
	return and
}

// constants returns the values in and below expressions: literals, elements
// of sets, and what operands come to in the environment.
func constants(env evalEnv, list []*tree) []types.Value {
	var out []types.Value
	add := func(v types.Value) {
		if set, ok := v.(types.Set); ok {
			out = append(out, sortedElements(set)...)
		}
		out = append(out, v)
	}
	for _, t := range list {
		t.walk(func(k *tree) bool {
			if lit, ok := k.node.(nodeValue); ok {
				add(lit.Value)
			}
			return true
		})
		for _, k := range t.kids {
			if v, err := evalNode(k.node, env); err == nil {
				add(v)
			}
		}
	}
	return out
}

func sortedElements(set types.Set) []types.Value {
	return slices.SortedFunc(set.All(), func(a, b types.Value) int {
		return cmp.Compare(string(a.MarshalCedar()), string(b.MarshalCedar()))
	})
}

// longs proposes the nearest number that does, then those around constants,
// then the ends of the range.
func (s solver) longs(at repair, t *tree, p spot, now types.Value, near []*tree) []types.Value {
	start, ok := now.(types.Long)
	if !ok {
		start = max(p.low, 0)
	}
	var list []types.Long
	for _, v := range constants(at.env, near) {
		if n, ok := v.(types.Long); ok && n > p.low && n < p.high {
			list = append(list, n, n-1, n+1)
		}
	}
	list = append(list, p.low, p.high)
	before, _ := evalNode(t.node, at.env)
	for _, end := range []types.Long{p.low, p.high} {
		list = append(list, bisect(start, end, func(n types.Long) bool {
			env := at.env
			patchPlace(&env, p.chain[1:], n)
			after, err := evalNode(t.node, env)
			return err == nil && after != before
		}))
	}
	slices.SortStableFunc(list, func(a, b types.Long) int { return cmp.Compare(distance(a, start), distance(b, start)) })
	out := make([]types.Value, 0, len(list))
	for _, n := range slices.Compact(list) {
		out = append(out, n)
	}
	return out
}

func distance(a, b types.Long) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// bisect returns the number nearest to start, in the direction of end, from
// which on the expression is as it is at end.
func bisect(start, end types.Long, good func(types.Long) bool) types.Long {
	if !good(end) {
		return end
	}
	for distance(start, end) > 1 {
		middle := start/2 + end/2 + (start%2+end%2)/2
		if good(middle) {
			end = middle
		} else {
			start = middle
		}
	}
	return end
}

// texting proposes texts: constants, texts of the patterns, usual values, and
// what is there with something added.
func texting(at repair, p spot, now types.Value, near []*tree) []types.Value {
	old, _ := now.(types.String)
	var out []types.Value
	add := func(list ...string) {
		for _, t := range list {
			if v := types.String(t); v != old && !slices.Contains(out, types.Value(v)) {
				out = append(out, v)
			}
		}
	}
	for _, v := range constants(at.env, near) {
		if t, ok := v.(types.String); ok {
			add(string(t))
		}
	}
	fillers := slices.Concat(p.usual, []string{"", "x"})
	if old != "" && p.chain[1] != "host" {
		fillers = slices.Concat([]string{path.Base(string(old)), string(old)}, fillers)
	}
	for _, t := range near {
		t.walk(func(k *tree) bool {
			if like, ok := k.node.(nodeLike); ok {
				add(fitting(like.Value, fillers)...)
			}
			return true
		})
	}
	add(p.usual...)
	if old != "" {
		add(string(old)+"x", "x"+string(old))
	}
	return out
}

// fitting returns texts that match a pattern, with fillers for its wildcards.
func fitting(pattern types.Pattern, fillers []string) []string {
	parts := patternParts(pattern)
	build := func(filler func(i int) string) string {
		out, wild := "", 0
		for _, part := range parts {
			if text, ok := part.(types.String); ok {
				out += string(text)
			} else {
				out += filler(wild)
				wild++
			}
		}
		return out
	}
	wild := 0
	build(func(i int) string { wild = i + 1; return "" })
	var out []string
	for _, f := range fillers {
		out = append(out,
			build(func(int) string { return f }),
			build(func(i int) string {
				if i < wild-1 {
					return ""
				}
				return f
			}))
	}
	return out
}

// sets proposes sets: what is there with more, with less, and constants.
func sets(at repair, p spot, now types.Value, near []*tree) []types.Value {
	old, _ := now.(types.Set)
	list := constants(at.env, near)
	var elements []types.Value
	var out []types.Value
	for _, v := range list {
		if set, ok := v.(types.Set); ok {
			out = append(out, set)
		} else if _, isRecord := v.(types.Record); !isRecord {
			elements = append(elements, v)
		}
	}
	for _, t := range p.usual {
		elements = append(elements, types.String(t))
	}
	without := func(drop func(types.Value) bool) types.Value {
		return types.NewSet(slices.DeleteFunc(sortedElements(old), drop)...)
	}
	var edits []types.Value
	for _, e := range elements {
		if old.Contains(e) {
			edits = append(edits, without(func(v types.Value) bool { return v.Equal(e) }))
		} else {
			edits = append(edits, types.NewSet(append(sortedElements(old), e)...))
		}
	}
	for _, v := range list {
		if set, ok := v.(types.Set); ok {
			edits = append(edits, types.NewSet(append(sortedElements(old), sortedElements(set)...)...), without(set.Contains))
		}
	}
	out = slices.Concat(edits, out, []types.Value{types.NewSet()})
	return slices.DeleteFunc(out, func(v types.Value) bool { return v.Equal(old) })
}

// entities proposes entities of a type: those named, then those known.
func (s solver) entities(p spot, near []*tree) []types.Value {
	var out []types.Value
	for _, v := range constants(evalEnv{}, near) {
		if uid, ok := v.(types.EntityUID); ok && uid.Type == p.entity {
			out = append(out, uid)
		}
	}
	var names []types.Value
	for uid := range s.trial.set.dir.entities {
		if uid.Type == p.entity {
			names = append(names, uid)
		}
	}
	slices.SortFunc(names, func(a, b types.Value) int {
		return cmp.Compare(string(a.MarshalCedar()), string(b.MarshalCedar()))
	})
	return append(out, names...)
}

// times proposes the times that are named, then every quarter of an hour of
// the next day and every hour of the next week.
func times(now types.Value, near []*tree) []types.Value {
	start, ok := now.(types.Datetime)
	if !ok {
		return nil
	}
	var out []types.Value
	for _, t := range near {
		t.walk(func(k *tree) bool {
			if lit, err := evalNode(k.node, evalEnv{}); err == nil {
				if d, ok := lit.(types.Datetime); ok {
					ms := d.Milliseconds()
					out = append(out, d, types.NewDatetimeFromMillis(ms-1), types.NewDatetimeFromMillis(ms+1))
				}
			}
			return true
		})
	}
	at := start.Time().Truncate(15 * time.Minute)
	for i := 1; i <= 24*4; i++ {
		out = append(out, types.NewDatetime(at.Add(time.Duration(i)*15*time.Minute)))
	}
	for i := 25; i <= 7*24; i++ {
		out = append(out, types.NewDatetime(at.Truncate(time.Hour).Add(time.Duration(i)*time.Hour)))
	}
	return out
}
