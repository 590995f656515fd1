// Package limittest has the conformance suite of limit.Store.
package limittest

import (
	"slices"
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
)

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
