package module

import (
	"crypto/sha256"
	"sync"
)

// mostKnown is the maximum number of cached modules.
const mostKnown = 32

// Known checks modules and caches the results of valid ones by bytes and limits. Refused
// modules are not cached. The cache is useful because a call checks the same bytes when it is
// planned and again at dispatch. Known is safe for concurrent use; its zero value has an empty
// cache.
type Known struct {
	mu   sync.Mutex
	read map[known]*Module
}

// known is the cache key: all inputs of Check.
type known struct {
	digest [sha256.Size]byte
	limits Limits
}

// Check is like the function Check, and also returns the SHA-256 of the module. The returned
// module is shared.
func (k *Known) Check(module []byte, limits Limits) (*Module, [sha256.Size]byte, error) {
	if len(module) > limits.ModuleBytes { // avoids hashing it
		m, err := Check(module, limits)
		return m, [sha256.Size]byte{}, err
	}
	is := known{sha256.Sum256(module), limits}
	if m := k.find(is); m != nil {
		return m, is.digest, nil
	}
	m, err := Check(module, limits)
	if err != nil {
		return nil, is.digest, err
	}
	k.keep(is, m)
	return m, is.digest, nil
}

func (k *Known) find(is known) *Module {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read[is]
}

// keep caches a module. If the cache is full it drops an arbitrary entry, which can be computed
// again.
func (k *Known) keep(is known, m *Module) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read == nil {
		k.read = map[known]*Module{}
	}
	for old := range k.read {
		if len(k.read) < mostKnown {
			break
		}
		delete(k.read, old)
	}
	k.read[is] = m
}
