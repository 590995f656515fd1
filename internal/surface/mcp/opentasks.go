package mcp

import (
	"maps"
	"slices"
	"sync"

	"palyra/internal/core/reason"
)

// openTasks holds the tasks that clients can poll. Each method is atomic. tasksInMemory is the
// implementation for one process; several replicas need one that they share.
type openTasks interface {
	// add stores a task that has an id. It returns reason.RateLimited if its owner has too many.
	add(t *task) error
	find(owner, id string) (*task, bool)
	all() []*task
	// remove removes a task that has ended; a task that was not added is ignored.
	remove(t *task)
}

type tasksInMemory struct {
	mu   sync.Mutex
	byID map[string]*task
}

func newTasksInMemory() *tasksInMemory { return &tasksInMemory{byID: make(map[string]*task)} }

func (m *tasksInMemory) add(t *task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, other := range m.byID {
		if other.owner == t.owner {
			n++
		}
	}
	if n >= mostTasks {
		return reason.Errorf(reason.RateLimited, "the client has %d tasks", n).WithRemedy("Cancel some, or wait until they have ended.")
	}
	m.byID[t.id] = t
	return nil
}

func (m *tasksInMemory) find(owner, id string) (*task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.byID[id]
	if !ok || t.owner != owner {
		return nil, false
	}
	return t, true
}

func (m *tasksInMemory) all() []*task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.byID))
}

func (m *tasksInMemory) remove(t *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID[t.id] == t {
		delete(m.byID, t.id)
	}
}
