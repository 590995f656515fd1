package explain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// witnesses proposes values for a place, derived from its value and from the values that
// policies in scope compare it with, the closest first. The caller tries them.
func (v *sight) witnesses(p place) []types.Value {
	now := v.real(p)
	near, patterns := v.comparedWith(p.chain)
	var out []types.Value
	switch now := now.(type) {
	case types.Boolean:
		out = []types.Value{!now}
	case types.Long:
		out = longs(now, near)
	case types.Set:
		out = sets(now, near)
	case types.Datetime:
		out = times(now)
	case types.String:
		out = texts(p, string(now), near, patterns)
	default:
		out = slices.Concat(near, texts(p, "", near, patterns), []types.Value{types.Long(0), types.True})
	}
	var known []types.Value
	if at, ok := now.(types.EntityUID); ok {
		for _, uid := range v.view.Entities(at.Type) {
			known = append(known, uid)
		}
	}
	out = append(out, known...)
	if p.optional && now != nil {
		out = append(out, nil)
	}
	return slices.DeleteFunc(out, func(v types.Value) bool { return v != nil && now != nil && v.Equal(now) })
}

// comparedWith returns the constants, and the patterns, of the expressions that
// read a place.
func (v *sight) comparedWith(chain []string) (near []types.Value, patterns []types.Pattern) {
	for _, p := range v.call.Policies {
		for _, cond := range p.Conditions() {
			cond.Body.Walk(func(t *expr.Tree) bool {
				if expr.PartsOf(t) != nil || dottedAnd(t) {
					return true
				}
				if slices.ContainsFunc(expr.Reads(t), func(c []string) bool { return slices.Equal(c, chain) }) {
					near = append(near, t.Constants()...)
					t.Walk(func(k *expr.Tree) bool {
						if like, ok := k.Node.(expr.NodeLike); ok {
							patterns = append(patterns, like.Value)
						}
						return true
					})
				}
				return false
			})
		}
	}
	return near, patterns
}

// dottedAnd reports whether a walk must descend into t because t may be "x has a.b".
func dottedAnd(t *expr.Tree) bool {
	_, and := t.Node.(expr.NodeAnd)
	return and
}

// longs proposes the numbers at and around constants, the nearest first.
func longs(now types.Long, near []types.Value) []types.Value {
	list := []types.Long{0}
	for _, v := range near {
		if n, ok := v.(types.Long); ok {
			list = append(list, n, n-1, n+1)
		}
	}
	away := func(n types.Long) uint64 { return uint64(max(n, now)) - uint64(min(n, now)) }
	slices.SortStableFunc(list, func(a, b types.Long) int { return cmp.Compare(away(a), away(b)) })
	out := make([]types.Value, len(list))
	for i, n := range list {
		out[i] = n
	}
	return out
}

// texts proposes constants, texts of the patterns, usual values, and extensions of the current
// text.
func texts(p place, old string, near []types.Value, patterns []types.Pattern) []types.Value {
	var out []types.Value
	for _, v := range near {
		switch v.(type) {
		case types.String, types.EntityUID:
			out = append(out, v)
		}
	}
	fillers := slices.Concat(p.usual, []string{"", "x"})
	if old != "" && p.chain[1] != "host" {
		fillers = slices.Concat([]string{path.Base(old), old}, fillers)
	}
	var made []string
	for _, pattern := range patterns {
		for _, filler := range fillers {
			made = append(made, fitting(pattern, filler)...)
		}
	}
	for _, text := range slices.Concat(made, p.usual, []string{old + "x", "x" + old}) {
		out = append(out, types.String(text))
	}
	return out
}

// fitting returns two texts for a pattern: one with the filler for each wildcard, and one with
// the filler only for the last wildcard.
func fitting(pattern types.Pattern, filler string) []string {
	var all, last strings.Builder
	parts := expr.PatternParts(pattern)
	for i, part := range parts {
		text, ok := part.(types.String)
		if !ok {
			all.WriteString(filler)
			if !slices.ContainsFunc(parts[i+1:], func(p any) bool { _, wild := p.(types.Wildcard); return wild }) {
				last.WriteString(filler)
			}
		}
		all.WriteString(string(text))
		last.WriteString(string(text))
	}
	return []string{all.String(), last.String()}
}

// sets proposes values derived from the current set. These are the set with one element added
// or removed, the set with all elements of a constant set added or removed, the constant sets,
// and the empty set.
func sets(now types.Set, near []types.Value) []types.Value {
	var out, whole []types.Value
	without := func(drop func(types.Value) bool) types.Value {
		return types.NewSet(slices.DeleteFunc(expr.SortedElements(now), drop)...)
	}
	for _, v := range near {
		set, ok := v.(types.Set)
		switch {
		case ok:
			whole = append(whole, types.NewSet(append(expr.SortedElements(now), expr.SortedElements(set)...)...), without(set.Contains), set)
		case now.Contains(v):
			out = append(out, without(v.Equal))
		default:
			out = append(out, types.NewSet(append(expr.SortedElements(now), v)...))
		}
	}
	return slices.Concat(out, whole, []types.Value{types.NewSet()})
}

// times proposes every quarter of an hour of the next day, and every hour of
// the next week.
func times(now types.Datetime) []types.Value {
	var out []types.Value
	for i := 1; i <= 24*4; i++ {
		out = append(out, types.NewDatetime(now.Time().Truncate(15*time.Minute).Add(time.Duration(i)*15*time.Minute)))
	}
	for i := 25; i <= 7*24; i++ {
		out = append(out, types.NewDatetime(now.Time().Truncate(time.Hour).Add(time.Duration(i)*time.Hour)))
	}
	return out
}

// setPlace returns the change that sets a place to a value.
func (v *sight) setPlace(p place, value types.Value) change {
	place, was, becomes := p.path(), v.masked(p, v.real(p)), v.masked(p, value)
	c := change{
		effort: effortOfPlace(p.chain),
		step:   Step{Kind: StepContext, Path: place, Was: was, Becomes: becomes},
		say:    fmt.Sprintf("change %s from %s to %s", place, was, becomes),
		edit:   func(to *scenario) error { return p.set(&to.Request, value) },
	}
	switch _, time := value.(types.Datetime); {
	case value == nil:
		c.say = fmt.Sprintf("call without %s (it is %s)", place, was)
	case was == ValueAbsent:
		c.say = fmt.Sprintf("call with %s %s (it is absent)", place, becomes)
	case time:
		c.say = fmt.Sprintf("call at %s (it is %s)", becomes, was)
	}
	return c
}

// real returns the value of a place, nil if missing.
func (v *sight) real(p place) types.Value { return v.standsAt(p, v.context) }

func (v *sight) standsAt(p place, context types.Record) types.Value {
	if p.file > 0 {
		path := v.files[p.file-1]
		if p.chain[1] == "path_folded" {
			return types.String(text.FoldCase(path))
		}
		return types.String(path)
	}
	var at types.Value = context
	for _, name := range p.chain[1:] {
		at = attributeOf(at, types.String(name), v.env.Entities)
	}
	return at
}

// masked returns the text of a proposed value. Parts that are copied from a hidden value are
// hidden as well.
func (v *sight) masked(p place, value types.Value) string {
	real, displayed := v.real(p), v.standsAt(p, v.displayed)
	if value == nil || real == nil || displayed != nil && real.Equal(displayed) {
		return valueText(value)
	}
	switch value := value.(type) {
	case types.Set:
		old, _ := real.(types.Set)
		open, _ := displayed.(types.Set)
		elements := expr.SortedElements(value)
		for i, e := range elements {
			if old.Contains(e) && !open.Contains(e) {
				elements[i] = types.String(tool.Redaction)
			}
		}
		return valueText(types.NewSet(elements...))
	case types.String:
		if old, ok := real.(types.String); ok && strings.Contains(string(value), string(old)) {
			return fmt.Sprintf("%q", tool.Redaction)
		}
	}
	if value.Equal(real) {
		return valueText(displayed)
	}
	return valueText(value)
}
