package policy

import (
	"bytes"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/tool"
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
	attrExec     = attributeOfName("exec")
	attrSession  = attributeOfName("session")
	attrNow      = attributeOfName("now")

	callAttributes   = attributesWhere(func(f contextFact) bool { return f.in&inCall != 0 })
	commitAttributes = attributesWhere(func(f contextFact) bool { return f.in&inCommit != 0 })
	injectAttributes = attributesWhere(func(f contextFact) bool { return f.in&inInjection != 0 })
	allAttributes    = callAttributes | commitAttributes | injectAttributes
	// planAttributes are those of a call that planning finds; the others come
	// along with its proposal, which does not change.
	planAttributes = attributesWhere(func(f contextFact) bool {
		return f.in&inCall != 0 && !f.Brought()
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

// contextReads returns what a policy's conditions read of the context: all
// of it where one reads it as a whole.
func contextReads(c *expr.Policy) attributes {
	var out attributes
	for _, cond := range c.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			if has, ok := t.Node.(expr.NodeHas); ok && isContext(t.Kids[0]) {
				out |= attributeOfName(has.Value)
				return false
			}
			switch chain := t.Chain(); {
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

func isContext(t *expr.Tree) bool {
	v, ok := t.Node.(expr.NodeVariable)
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
		return c.arguments()
	case "args_rest":
		return c.rest
	case "approval":
		return nil // call.under gives it
	}
	return f.value(c, f.parts)
}

// PastReads is what the policies of a set read of the past of a session, and
// of the clock. A verdict stays good as long as none of that changes.
type PastReads struct {
	// session are the facts of the session that are read.
	session []*Fact
	// Now is true when a policy reads the time.
	Now bool
}

// ReadsOfPast returns what any policy of the set reads.
func (s *Set) ReadsOfPast() PastReads { return s.past }

// Differ reports whether facts differ in something that is read.
func (r PastReads) Differ(a, b tool.SessionFacts) bool {
	if len(r.session) == 0 {
		return false
	}
	was, is := &Request{SessionFacts: a}, &Request{SessionFacts: b}
	var room [2][256]byte // as in BoundDigest
	return slices.ContainsFunc(r.session, func(f *Fact) bool {
		return !bytes.Equal(f.appendTo(room[0][:0], was, nil), f.appendTo(room[1][:0], is, nil))
	})
}

// pastReads joins what policies read.
func pastReads(policies []*compiled) PastReads {
	var r PastReads
	for _, p := range policies {
		if p.reads&(attrSession|attrNow) == 0 {
			continue
		}
		for _, cond := range p.Conditions() {
			cond.Body.Walk(func(t *expr.Tree) bool {
				chain := t.Chain()
				if has, ok := t.Node.(expr.NodeHas); ok {
					chain = append(t.Kids[0].Chain(), string(has.Value))
				}
				r.add(chain)
				return len(chain) == 0 || chain[0] != "context"
			})
		}
	}
	return r
}

// add adds one place that is read: "context.session.tainted". The context or
// the session as a whole is all of it.
func (r *PastReads) add(chain []string) {
	if len(chain) == 0 || chain[0] != "context" {
		return
	}
	whole := len(chain) == 1
	r.Now = r.Now || whole || chain[1] == "now"
	for _, p := range contextFacts[attrSession.index()].parts {
		read := whole || chain[1] == "session" && (len(chain) == 2 || chain[2] == string(p.name))
		if read && !slices.Contains(r.session, p.Fact) {
			r.session = append(r.session, p.Fact)
		}
	}
}
