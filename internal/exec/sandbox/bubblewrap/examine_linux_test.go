package bubblewrap

import (
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/jail"
)

// Every layer is proved, and without it the forbidden attempt succeeds.
func TestExamine(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	start := time.Now()
	list := r.Examine(t.Context())
	t.Logf("%d layers took %s", len(list), time.Since(start))
	asked := append([]string{jail.LayerNetwork, jail.AllowedHosts, jail.LayerCopy}, layers...)
	ungrouped := r.machine.Level() == cgroup.Rlimit
	for _, layer := range asked {
		i := slices.IndexFunc(list, func(e sandbox.Examination) bool { return e.Layer == layer })
		switch {
		case i < 0:
			t.Errorf("%s was not examined", layer)
		case list[i].Absent != ((layer == jail.LayerGroup || layer == jail.LayerCgroupNS) && ungrouped):
			t.Errorf("groups by %s, and it says %+v", r.machine.Level(), list[i])
		case list[i].Absent:
			// An absent layer is reported as absent, not as a weakness.
			if !strings.Contains(list[i].Problem, "absent on this machine") || list[i].Detail != "" || list[i].Denied {
				t.Errorf("no control group can be made, and it says %+v", list[i])
			}
		case !list[i].Denied:
			t.Errorf("%s does not hold: %+v", layer, list[i])
		case !list[i].Control:
			t.Errorf("%s has no control: %+v", layer, list[i])
		case strings.Contains(list[i].Detail, "succeeded"):
			t.Errorf("%s holds, and beside it stands %q", layer, list[i].Detail)
		}
	}
}

// A layer that is not in force is detected.
func TestExamineFindsOut(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t, jail.LayerSeccomp)
	for _, e := range r.Examine(t.Context()) {
		if e.Absent {
			continue // the layer is absent, see TestExamine
		}
		if (e.Layer == jail.LayerSeccomp) == e.Denied || e.Problem == "" && !e.Denied {
			t.Errorf("%+v", e)
		}
	}
}
