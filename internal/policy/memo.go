package policy

import (
	"sync"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go/types"
)

// memo remembers Cedar records that repeat from call to call: hashing them is
// most of the cost of a context. It holds at most maxMemo, so that no caller
// can grow it.
type memo struct {
	records sync.Map
	size    atomic.Int64
}

type memoKey struct{ kind, a, b string }

const maxMemo = 256

func (m *memo) get(key memoKey, make func() types.Value) types.Value {
	if v, ok := m.records.Load(key); ok {
		return v.(types.Value)
	}
	v := make()
	if m.size.Add(1) <= maxMemo {
		m.records.Store(key, v)
	}
	return v
}
