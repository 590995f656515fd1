package policy

import (
	"crypto/sha256"
	"sync"
)

// verdicts remembers what the validator said of a policy under a schema. Its answer
// depends on nothing else and is most of the work of a build; a build happens at each
// change of a member, a tool or one policy, and most of what it validates is as before.
var verdicts = verdictMemory{now: map[verdictKey][]message{}}

// verdictKey is the SHA-256 of the schema's digest and the policy's text.
type verdictKey [sha256.Size]byte

// maxVerdicts bounds each of the two generations: the most policies that palyrad is
// measured with. A verdict is mostly its key.
const maxVerdicts = 10_000

// verdictMemory holds the verdicts of two generations. What is asked for moves to the
// newer one; when that is full, the older one is forgotten.
type verdictMemory struct {
	mu          sync.Mutex
	now, before map[verdictKey][]message
}

func verdictKeyOf(schemaDigest, text string) verdictKey {
	return sha256.Sum256([]byte(schemaDigest + "\x00" + text))
}

// of returns the verdict of key, from judge the first time. None of its messages may be
// changed by the caller.
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
