package policy

import (
	"bytes"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// attributes is a set of attributes of a call's context. Building a context is most of the work
// of a decision, so only the attributes that the candidates read are built.
type attributes uint64

// contextFact is an attribute of the context: a row of the table, with the rows of its parts.
type contextFact struct {
	*Fact
	parts []part
}

// contextFacts are the attributes in the order of the table; the index is the bit number.
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
	// planAttributes are the attributes that planning determines. The others come with the
	// proposal, which does not change.
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

// index returns the table index of a single attribute.
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

// attributeOfName returns the attribute of a name. For a name outside the vocabulary, which no
// loadable policy can use, it returns the empty set.
func attributeOfName(name types.String) attributes {
	for i := range contextFacts {
		if contextFacts[i].Name == string(name) {
			return 1 << i
		}
	}
	return 0
}

// reads returns the union of the candidates' context attributes.
func (c candidates) reads() attributes {
	var out attributes
	for _, p := range c {
		out |= p.reads
	}
	return out
}

// fact returns the value of one fact of the call, or nil.
func (c *call) fact(a attributes) types.Value {
	f := &contextFacts[a.index()]
	switch f.Name {
	case "args":
		return c.arguments()
	case "args_rest":
		return c.rest
	case "approval":
		return nil // call.under sets it
	}
	return f.value(c, f.parts)
}

// PastReads are the facts about the past of a session, and the clock, that the policies of a
// set read. A verdict stays valid as long as none of them changes.
type PastReads struct {
	// session are the session facts that are read.
	session []*Fact
	// Now is true if a policy reads the time.
	Now bool
}

// ReadsOfPast returns the union over all policies of the set.
func (s *Set) ReadsOfPast() PastReads { return s.past }

// Differ reports whether the facts differ in a fact that is read.
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

// value returns the call's value of a fact, or nil. A record is built from its parts.
func (f *Fact) value(c *call, parts []part) types.Value {
	if f.at == nil {
		return nil
	}
	switch at := f.at(c.request).(type) {
	case nil:
		return nil
	case *string:
		return f.text(*at)
	case *access.Surface:
		return types.String(*at)
	case *bool:
		return types.Boolean(*at)
	case *int:
		if f.optional() && *at == 0 {
			return nil
		}
		return types.Long(*at)
	case *int64:
		return types.Long(*at)
	case *[]string:
		return entities.TextSet(*at)
	case *[]tool.Capability:
		return entities.TextSet(*at)
	case *time.Time:
		return types.NewDatetime(*at)
	case record:
		if key := at.key(); key != nil {
			return c.records.get(key, func() types.Record { return recordOf(c, parts) })
		}
		return recordOf(c, parts)
	default:
		panic("policy: no value is made of the fact " + f.Name)
	}
}

// text returns a text, or the entity of that name; nil if it is empty.
func (f *Fact) text(s string) types.Value {
	switch {
	case f.optional() && s == "":
		return nil
	case f.optional() && f.PlainType() != "String":
		return types.NewEntityUID(types.EntityType(f.PlainType()), types.String(s))
	}
	return types.String(s)
}

// part is a fact inside a record, with its name there.
type part struct {
	name types.String
	*Fact
}

func recordOf(c *call, parts []part) types.Record {
	m := make(types.RecordMap, len(parts))
	for _, p := range parts {
		if v := p.value(c, nil); v != nil {
			m[p.name] = v
		}
	}
	return types.NewRecord(m)
}

// record is a record of facts that a request has. key returns its cache key, or nil if the
// record is not cached.
type record interface{ key() any }

type (
	sandboxFacts tool.Facts
	egressFacts  tool.Facts
	execFacts    tool.ExecFacts
	always       struct{}
)

func (always) key() any { return nil }

func unremembered(*Request) any { return always{} }

// sandboxRecord is the cache key of a sandbox.
type sandboxRecord struct {
	tier, level, rung, limits, layers string
	landlockABI                       int
}

func (f *sandboxFacts) key() any {
	return sandboxRecord{f.SandboxTier, f.SandboxLevel, f.SandboxRung, f.SandboxLimits, strings.Join(f.SandboxLayers, "\x00"), f.LandlockABI}
}

// egressRecord is the cache key of the egress of calls that reach no host: the default policies
// read it for every call.
type egressRecord string

func (f *egressFacts) key() any {
	if len(f.EgressHosts)+len(f.Secrets) > 0 {
		return nil
	}
	return egressRecord(f.EgressMode)
}

// execRecord is the cache key of a program: its facts as bytes.
type execRecord string

// key is nil for a call that sets variables or starts further commands: few of these repeat.
func (f *execFacts) key() any {
	if len(f.Env)+len(f.Starts) > 0 {
		return nil
	}
	r := &Request{Facts: tool.Facts{Exec: (*tool.ExecFacts)(f)}}
	row := &contextFacts[attrExec.index()]
	return execRecord(row.appendTo(nil, r, row.parts))
}

func (f *Fact) optional() bool { return strings.HasSuffix(f.Type, "?") }

// PlainType is the type without the mark of an optional fact.
func (f *Fact) PlainType() string { return strings.TrimSuffix(f.Type, "?") }

// memo caches Cedar records that repeat from call to call: hashing them is most of the cost of
// a context. It holds at most maxMemo records, so that no caller can grow it.
type memo struct {
	records sync.Map
	size    atomic.Int64
}

const maxMemo = 256

func (m *memo) get(key any, record func() types.Record) types.Record {
	if found, ok := m.records.Load(key); ok {
		if v, ok := found.(types.Record); ok {
			return v
		}
	}
	v := record()
	if m.size.Add(1) <= maxMemo {
		m.records.Store(key, v)
	}
	return v
}
