package tool

import (
	"maps"
	"strconv"
)

// sameValue returns the parts that apply to the same value as p.
func (p *part) sameValue() (all []*part) {
	if p.ref != nil {
		all = append(all, p.ref)
	}
	for _, keyword := range sameValueOne {
		if one := p.one[keyword]; one != nil {
			all = append(all, one)
		}
	}
	for _, keyword := range sameValueList {
		all = append(all, p.list[keyword]...)
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		for _, one := range p.table[keyword] {
			all = append(all, one)
		}
	}
	return all
}

// cutLoops removes references that lead back to their own schema without descending into the
// input.
func (c *checker) cutLoops() {
	state := map[*part]visit{}
	var follow func(*part)
	follow = func(p *part) {
		state[p] = open
		if p.ref != nil && state[p.ref] == open {
			p.ref = nil
			c.lost = true
			c.note(p, "$ref", "it leads back to itself")
		}
		for _, next := range p.sameValue() {
			if state[next] == unseen {
				follow(next)
			}
		}
		state[p] = done
	}
	for _, p := range c.all {
		if state[p] == unseen {
			follow(p)
		}
	}
}

// weakenAll removes the keywords that would refuse more inputs because a part below them
// accepts more.
func (c *checker) weakenAll() {
	if c.lost {
		for _, p := range c.all {
			for _, keyword := range []string{"unevaluatedItems", "unevaluatedProperties"} {
				if p.one[keyword] != nil {
					delete(p.one, keyword)
					c.note(p, keyword, "a keyword on which it depends is not checked")
				}
			}
		}
	}
	weaker := map[*part]bool{}
	for len(c.weak) > 0 {
		p := c.weak[0]
		c.weak = c.weak[1:]
		if weaker[p] {
			continue
		}
		weaker[p] = true
		for _, u := range p.uses {
			c.weaken(u.by, u.keyword)
			c.weak = append(c.weak, u.by)
		}
	}
}

const belowIt = "a keyword below it is not checked"

// weaken removes the effect of a keyword of p below which a part is not completely checked.
func (c *checker) weaken(p *part, keyword string) {
	switch {
	case keyword == "not" && p.one["not"] != nil:
		p.also(p.one["not"], always())
		delete(p.one, "not")
		c.note(p, "not", belowIt)
	case keyword == "if" && p.one["if"] != nil:
		then, otherwise := p.one["then"], p.one["else"]
		p.also(p.one["if"], always())
		p.also(orAlways(then), orAlways(otherwise))
		for _, gone := range []string{"if", "then", "else"} {
			delete(p.one, gone)
		}
		c.note(p, "if", belowIt)
	case keyword == "oneOf" && p.list["oneOf"] != nil:
		p.also(p.list["oneOf"]...)
		delete(p.list, "oneOf")
		c.note(p, "oneOf", "only that one of them fits at least: "+belowIt)
	case keyword == "contains" && p.keep["maxContains"] != nil:
		delete(p.keep, "maxContains")
		c.note(p, "maxContains", "a keyword of contains is not checked")
	}
}

// also requires that a value matches one of the alternatives.
func (p *part) also(alternatives ...*part) {
	p.list["allOf"] = append(p.list["allOf"], &part{at: p.at, list: map[string][]*part{"anyOf": alternatives}})
}

func always() *part {
	yes := true
	return &part{always: &yes}
}

// orAlways returns p, or the schema that accepts everything if p is nil.
func orAlways(p *part) *part {
	if p == nil {
		return always()
	}
	return p
}

// render returns the schema of the checkable part.
func (p *part) render() any {
	if p.always != nil {
		return *p.always
	}
	out := make(map[string]any, len(p.keep))
	maps.Copy(out, p.keep)
	for keyword, one := range p.one {
		out[keyword] = one.render()
	}
	for keyword, list := range p.list {
		rendered := make([]any, len(list))
		for i, one := range list {
			rendered[i] = one.render()
		}
		out[keyword] = rendered
	}
	for keyword, table := range p.table {
		rendered := make(map[string]any, len(table))
		for name, one := range table {
			rendered[name] = one.render()
		}
		out[keyword] = rendered
	}
	if p.ref != nil {
		out["$ref"] = "#/$defs/" + strconv.Itoa(p.ref.number)
	}
	return out
}
