package policy

import (
	"sync"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go/types"
)

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
