package module

import (
	"crypto/sha256"
	"sync"
)

// mostKnown is how many modules are remembered.
const mostKnown = 32

// Known reads modules, and remembers what it read of those that are right: the same bytes
// under the same limits come to the same. It is safe for use by many goroutines; its zero
// value remembers nothing yet.
type Known struct {
	mu   sync.Mutex
	read map[known]*Module
}

// known is all that Check depends on.
type known struct {
	digest [sha256.Size]byte
	limits Limits
}

// Check is Check, and returns the SHA-256 of the module, too. What it returns is shared.
func (k *Known) Check(module []byte, limits Limits) (*Module, [sha256.Size]byte, error) {
	if len(module) > limits.ModuleBytes { // nor is it hashed
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

// keep drops one when there are too many; which one does not matter much, since it is read
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
