package hook

import "sync"

// openVisits holds the active and recent calls of agents. Each method is atomic.
// visitsInMemory is the implementation for one process; several replicas need one that they
// share.
type openVisits interface {
	// enter stores a visit. If one with the same id is known, it returns that one and false.
	enter(id visitID, v *visit) (*visit, bool)
	// find returns nil for an unknown id.
	find(id visitID) *visit
	// put replaces the visit of a known id.
	put(id visitID, v *visit)
	// ofProposal returns the visit of a proposal: own, unless it was proposed before.
	ofProposal(proposal string, own *visit) *visit
	// each calls fn with every visit. fn MUST NOT call openVisits.
	each(fn func(visitID, *visit))
}

// mostVisits bounds the visits kept in memory.
const mostVisits = 20_000

type visitsInMemory struct {
	mu sync.Mutex
	// byID has the visits by the agents' ids; proposals has the same visits by proposal id.
	byID      map[visitID]*visit
	proposals map[string]*visit
	// order lists the ids, oldest first. The oldest are dropped first; a later report of a
	// dropped visit is looked up in the journal.
	order []visitID
}

func newVisitsInMemory() *visitsInMemory {
	return &visitsInMemory{byID: make(map[visitID]*visit), proposals: make(map[string]*visit)}
}

func (m *visitsInMemory) enter(id visitID, v *visit) (*visit, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.byID[id]; ok {
		return known, false
	}
	for len(m.order) >= mostVisits {
		old := m.byID[m.order[0]]
		delete(m.byID, m.order[0])
		delete(m.proposals, old.id())
		m.order = m.order[1:]
	}
	m.byID[id], m.order = v, append(m.order, id)
	return v, true
}

func (m *visitsInMemory) find(id visitID) *visit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id]
}

func (m *visitsInMemory) put(id visitID, v *visit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID[id] = v
}

func (m *visitsInMemory) ofProposal(proposal string, own *visit) *visit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.proposals[proposal]; ok {
		return v
	}
	m.proposals[proposal] = own
	return own
}

func (m *visitsInMemory) each(fn func(visitID, *visit)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, v := range m.byID {
		fn(id, v)
	}
}
