// Package limittest has a limit.Store in memory, and the conformance suite of limit.Store.
package limittest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
)

// Memory is a limit.Store in memory.
type Memory struct {
	mu   sync.Mutex
	list []limit.Usage
}

var _ limit.Store = (*Memory)(nil)

// Usage implements limit.Store.
func (m *Memory) Usage(_ context.Context, from int64) ([]limit.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.list), func(u limit.Usage) bool { return u.Hour < from }), nil
}

// PutUsage implements limit.Store.
func (m *Memory) PutUsage(_ context.Context, list []limit.Usage, from int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(u limit.Usage) bool {
		return u.Hour < from || slices.ContainsFunc(list, func(n limit.Usage) bool { return n.Who == u.Who && n.Hour == u.Hour })
	})
	m.list = append(m.list, list...)
	slices.SortFunc(m.list, func(a, b limit.Usage) int {
		return cmp.Or(strings.Compare(a.Who, b.Who), cmp.Compare(a.Hour, b.Hour))
	})
	return nil
}

// RunStore is the conformance suite of limit.Store.
func RunStore(t *testing.T, newStore func(t *testing.T) limit.Store) {
	t.Helper()
	s := newStore(t)
	for _, step := range []struct {
		name      string
		put       []limit.Usage
		from, see int64
		want      []limit.Usage
	}{
		{"nothing", nil, 0, 0, nil},
		{"hours of two", []limit.Usage{{Who: "b", Hour: 7, Bytes: 1}, {Who: "a", Hour: 8, Bytes: 2}, {Who: "a", Hour: 7, Bytes: 3}}, 0, 0,
			[]limit.Usage{{Who: "a", Hour: 7, Bytes: 3}, {Who: "a", Hour: 8, Bytes: 2}, {Who: "b", Hour: 7, Bytes: 1}}},
		{"from an hour on", nil, 0, 8, []limit.Usage{{Who: "a", Hour: 8, Bytes: 2}}},
		{"in place of the same", []limit.Usage{{Who: "a", Hour: 8, Bytes: 5}}, 8, 0, []limit.Usage{{Who: "a", Hour: 8, Bytes: 5}}},
	} {
		must.Do(t, s.PutUsage(t.Context(), step.put, step.from))
		got, err := s.Usage(t.Context(), step.see)
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("%s: %+v, %v, want %+v", step.name, got, err, step.want)
		}
	}
}
