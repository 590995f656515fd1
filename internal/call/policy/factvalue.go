package policy

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

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
