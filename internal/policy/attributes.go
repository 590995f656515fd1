package policy

import (
	"iter"
	"math/bits"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// attributes is a set of attributes of a call's context. Building a context is
// most of the work of a decision, so only what the candidates read is built.
type attributes uint64

// contextFact is an attribute of the context: a row of the table, with those of
// its parts if it is a record.
type contextFact struct {
	*Fact
	parts []part
}

// contextFacts are the attributes, in the order of the table; each is the bit of
// its place.
var contextFacts = attributesOf(facts[:])

func attributesOf(rows []Fact) []contextFact {
	var out []contextFact
	for i := range rows {
		row := &rows[i]
		if record, name, inner := strings.Cut(row.Name, "."); !inner {
			out = append(out, contextFact{Fact: row})
		} else if last := &out[len(out)-1]; last.Name == record {
			last.parts = append(last.parts, part{types.String(name), row})
		}
	}
	return out
}

var (
	attrArgs     = attributeOfName("args")
	attrApproval = attributeOfName("approval")
	attrSession  = attributeOfName("session")
	attrNow      = attributeOfName("now")

	callAttributes   = attributesWhere(func(f contextFact) bool { return f.in&inCall != 0 })
	commitAttributes = attributesWhere(func(f contextFact) bool { return f.in&inCommit != 0 })
	allAttributes    = callAttributes | commitAttributes
	// planAttributes are those of a call that planning finds; the others come
	// along with its proposal, which does not change.
	planAttributes = attributesWhere(func(f contextFact) bool {
		return f.in&inCall != 0 && f.Origin != ofCall && f.Origin != ofCaller
	})
)

func attributesWhere(is func(contextFact) bool) attributes {
	var out attributes
	for i, f := range contextFacts {
		if is(f) {
			out |= 1 << i
		}
	}
	return out
}

func (a attributes) has(one attributes) bool { return a&one != 0 }

// index is the place of one attribute in the table.
func (a attributes) index() int { return bits.TrailingZeros64(uint64(a)) }

func (a attributes) size() int { return bits.OnesCount64(uint64(a)) }

// all yields the attributes of the set with their names.
func (a attributes) all() iter.Seq2[attributes, types.String] {
	return func(yield func(attributes, types.String) bool) {
		for rest := uint64(a); rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if !yield(1<<i, types.String(contextFacts[i].Name)) {
				return
			}
		}
	}
}

// attributeOfName returns the attribute of a name. One that the vocabulary
// does not have, which no policy that loads can name, is none.
func attributeOfName(name types.String) attributes {
	for i := range contextFacts {
		if contextFacts[i].Name == string(name) {
			return 1 << i
		}
	}
	return 0
}

// contextReads returns what the policy's conditions read of the context: all
// of it where one reads it as a whole.
func (c *compiled) contextReads() attributes {
	var out attributes
	for _, cond := range c.conditions() {
		cond.body.walk(func(t *tree) bool {
			if has, ok := t.node.(nodeHas); ok && isContext(t.kids[0]) {
				out |= attributeOfName(has.Value)
				return false
			}
			switch chain := t.chain(); {
			case len(chain) == 0 || chain[0] != "context":
				return true
			case len(chain) == 1:
				out = allAttributes
			default:
				out |= attributeOfName(types.String(chain[1]))
			}
			return false
		})
	}
	return out
}

func isContext(t *tree) bool {
	v, ok := t.node.(nodeVariable)
	return ok && v.Name == "context"
}

// reads joins what candidates read of the context.
func (c candidates) reads() attributes {
	var out attributes
	for _, p := range c {
		out |= p.reads
	}
	return out
}

// fact returns the value of one fact of the call, nil for none.
func (c *call) fact(a attributes) types.Value {
	f := &contextFacts[a.index()]
	switch f.Name {
	case "args":
		return c.args
	case "args_rest":
		return c.rest
	case "approval":
		return nil // call.under gives it
	}
	return f.value(c, f.parts)
}
