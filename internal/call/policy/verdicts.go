package policy

import (
	"crypto/sha256"
	"sync"
)

// verdicts caches the validator's messages for a policy under a schema. They depend on nothing
// else, and computing them is most of the work of a build. A build happens at each change of a
// member, a tool or a policy, and most of the validated policies are unchanged.
var verdicts = verdictMemory{now: map[verdictKey][]message{}}

// verdictKey is the SHA-256 of the schema's digest and the policy's text.
type verdictKey [sha256.Size]byte

// maxVerdicts bounds each of the two generations. It is the largest number of policies that
// palyrad is measured with. A verdict is mostly its key.
const maxVerdicts = 10_000

// verdictMemory holds the verdicts of two generations. A hit moves its entry to the newer one;
// when that is full, the older one is dropped.
type verdictMemory struct {
	mu          sync.Mutex
	now, before map[verdictKey][]message
}

func verdictKeyOf(schemaDigest, text string) verdictKey {
	return sha256.Sum256([]byte(schemaDigest + "\x00" + text))
}

// of returns the verdict of key, computed by judge on the first use. The caller must not modify
// the messages.
func (m *verdictMemory) of(key verdictKey, judge func() []message) []message {
	if found, ok := m.find(key); ok {
		return found
	}
	found := judge()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, found)
	return found
}

func (m *verdictMemory) find(key verdictKey) ([]message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.now[key]; ok {
		return found, true
	}
	found, ok := m.before[key]
	if ok {
		m.keep(key, found)
	}
	return found, ok
}

// keep adds a verdict. The caller holds m.mu.
func (m *verdictMemory) keep(key verdictKey, found []message) {
	if len(m.now) >= maxVerdicts {
		m.now, m.before = make(map[verdictKey][]message, maxVerdicts), m.now
	}
	m.now[key] = found
}
