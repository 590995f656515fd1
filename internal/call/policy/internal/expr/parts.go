package expr

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"
)

// SplitTree splits a conjunction. "x has a.b" is one conjunct.
func SplitTree(t *Tree) []*Tree {
	if _, ok := t.Node.(NodeAnd); ok && !dottedHas(t) {
		return append(SplitTree(t.Kids[0]), SplitTree(t.Kids[1])...)
	}
	return []*Tree{t}
}

// dottedHas reports whether a conjunction was written as "x has a.b", whose second half has no
// text of its own.
func dottedHas(t *Tree) bool { return t.To > 0 && t.Kids[1].To == 0 }

// PartsOf returns the operands of a logical operation, nil for other expressions.
func PartsOf(t *Tree) []*Tree {
	switch t.Node.(type) {
	case NodeOr:
		return splitOr(t)
	case NodeAnd:
		if !dottedHas(t) {
			return SplitTree(t)
		}
	case NodeNot, NodeIf:
		return t.Kids
	}
	return nil
}

func splitOr(t *Tree) []*Tree {
	if _, ok := t.Node.(NodeOr); ok {
		return append(splitOr(t.Kids[0]), splitOr(t.Kids[1])...)
	}
	return []*Tree{t}
}

// Reads lists the places that an expression reads, each once, in the order of
// its text.
func Reads(t *Tree) [][]string {
	var list [][]string
	add := func(chain []string) {
		if !slices.ContainsFunc(list, func(c []string) bool { return slices.Equal(c, chain) }) {
			list = append(list, chain)
		}
	}
	t.Walk(func(t *Tree) bool {
		if chain := t.Chain(); chain != nil {
			add(chain)
			return false
		}
		if has, ok := t.Node.(NodeHas); ok {
			if chain := t.Kids[0].Chain(); chain != nil {
				add(append(chain, string(has.Value)))
				return false
			}
		}
		return true
	})
	return list
}

// Constants returns the values of the constant parts of an expression, and the elements of
// constant sets.
func (t *Tree) Constants() []types.Value {
	var out []types.Value
	t.Walk(func(k *Tree) bool {
		if k.hasVariable() { // without a request, a variable has no value, and evaluating it panics
			return true
		}
		value, err := Eval(k.Node, Env{})
		if err != nil {
			return true
		}
		if set, ok := value.(types.Set); ok {
			out = append(out, SortedElements(set)...)
		}
		out = append(out, value)
		return false
	})
	return out
}

// hasVariable reports whether an expression reads principal, action, resource or context.
func (t *Tree) hasVariable() (has bool) {
	t.Walk(func(k *Tree) bool {
		_, variable := k.Node.(NodeVariable)
		has = has || variable
		return !has
	})
	return has
}

// Constants returns the values that a policy's conditions contain.
func (c *Policy) Constants() []types.Value {
	var out []types.Value
	for _, cond := range c.Conditions() {
		out = append(out, cond.Body.Constants()...)
	}
	return out
}

// SortedElements lists a set in the order of its elements' text.
func SortedElements(set types.Set) []types.Value { return sortedValues(set.Slice()) }

func sortedValues(list []types.Value) []types.Value {
	slices.SortFunc(list, func(a, b types.Value) int { return cmp.Compare(string(a.MarshalCedar()), string(b.MarshalCedar())) })
	return list
}

// PatternParts splits a pattern into the arguments of types.NewPattern.
func PatternParts(pattern types.Pattern) []any {
	text, err := json.Marshal(pattern)
	var parts []json.RawMessage
	if err != nil || json.Unmarshal(text, &parts) != nil {
		return nil
	}
	var out []any
	for _, part := range parts {
		var literal struct{ Literal string }
		if json.Unmarshal(part, &literal) == nil {
			out = append(out, types.String(literal.Literal))
		} else {
			out = append(out, types.Wildcard{})
		}
	}
	return out
}

// TextOf returns the source text of an expression, on one line and without comments.
func (c *Policy) TextOf(t *Tree) string {
	if t.To == 0 {
		return t.At.Text
	}
	tokens, _ := Tokenize(c.Source.Text[t.From:t.To])
	return Clip(sourceOf(tokens))
}

// PlaceOf returns line and column of an expression's first character.
func (c *Policy) PlaceOf(t *Tree) (line, column int) {
	if t.To == 0 {
		return t.At.line, t.At.column
	}
	before := c.Source.Text[:t.From]
	last := strings.LastIndexByte(before, '\n')
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[last+1:])
}

// ElementsOf returns the expressions that the value of t is built from.
func ElementsOf(t *Tree) []*Tree {
	switch t.Node.(type) {
	case NodeSet, NodeRecord:
		return t.Kids
	case NodeIf:
		return t.Kids[1:]
	}
	return nil
}

// Literal is a text literal in a policy.
type Literal struct {
	Text string
	At   Token
}

// Literals returns the text literals of t: t itself if it is one, otherwise the
// literals among its elements.
func Literals(t *Tree) []Literal {
	if v, ok := t.Node.(NodeValue); ok {
		if text, ok := v.Value.(types.String); ok {
			return []Literal{{string(text), t.At}}
		}
	}
	var out []Literal
	for _, k := range ElementsOf(t) {
		out = append(out, Literals(k)...)
	}
	return out
}
