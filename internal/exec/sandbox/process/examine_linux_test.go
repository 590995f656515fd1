package process

import (
	"slices"
	"testing"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// Every layer is proved, and without it the forbidden attempt succeeds.
func TestExamine(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			r := rung.make(t)
			list := r.Examine(t.Context())
			for _, e := range list {
				if !e.Denied || !e.Control || e.Problem != "" {
					t.Errorf("%+v", e)
				}
			}
			if !grouped() {
				return
			}
			if want := map[sandbox.Isolation]int{sandbox.UserNamespaces: 18, sandbox.Landlocked: 7}[r.rung]; len(list) != want {
				t.Errorf("%d layers were examined, want %d", len(list), want)
			}
		})
	}
}

// A layer that is not in force is detected.
func TestExamineFindsOut(t *testing.T) {
	t.Parallel()
	list := newTestRunner(t, jail.LayerSeccomp).Examine(t.Context())
	i := slices.IndexFunc(list, func(e sandbox.Examination) bool { return e.Layer == jail.LayerSeccomp })
	if i < 0 || list[i].Denied || list[i].Problem == "" {
		t.Errorf("%+v", list)
	}
}
