package dualcontrol_test

import (
	"slices"
	"testing"

	"palyra/internal/core/change"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/changetable"
)

// Every method whose permission could disable dual control requires a second person, or its row
// has the reason why one person is enough. The table names no other method.
func TestEveryGuardedMethodHasARow(t *testing.T) {
	t.Parallel()
	guarded := 0
	for procedure, m := range api.Methods() {
		row, known := changetable.Lookup(procedure)
		if wants := slices.Contains(changetable.Guarded, m.Permission); wants != known {
			t.Errorf("%s (%s): has a row: %v, want %v", procedure, m.Permission, known, wants)
		} else if wants {
			guarded++
		}
		if known && (row.Kind == "") == (row.Alone == "") {
			t.Errorf("%s: %+v: want a kind of change, or why one person does it", procedure, row)
		}
		if row.Kind != "" && !slices.Contains(change.Kinds, row.Kind) {
			t.Errorf("%s: there is no change %s", procedure, row.Kind)
		}
	}
	rows := 0
	for procedure, row := range changetable.Rows() {
		rows++
		if changetable.TakesTwo(procedure) != (row.Kind != "") {
			t.Errorf("%s: clients and the API disagree", procedure)
		}
		if _, ok := api.Lookup(procedure); !ok {
			t.Errorf("%s is no method", procedure)
		}
	}
	if guarded == 0 || guarded != rows {
		t.Errorf("%d guarded methods, %d rows", guarded, rows)
	}
	for _, kind := range change.Kinds {
		used := kind == change.Erase // no operation erases yet
		for _, row := range changetable.Rows() {
			used = used || row.Kind == kind
		}
		if !used {
			t.Errorf("%s: no method makes it", kind)
		}
	}
}
