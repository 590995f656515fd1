//go:build linux

package attack

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// TestLayersAreReported omits one layer at a time. The sandbox must report the omission, and
// must refuse a tool that requires the layer.
func TestLayersAreReported(t *testing.T) {
	t.Parallel()
	b := newBoundary(t)
	c := newScene(t)
	c.spec.Argv = []string{"./probe", "put"}
	c.stray() // gives closed_descriptors a descriptor to close
	full := b.start(t, row{}, nil, c.spec)
	if full.err != nil {
		t.Fatal(full)
	}
	for _, layer := range full.report.Requested {
		if downgraded(full.report, layer) {
			continue // this machine lacks the layer, and the report states it
		}
		t.Run(layer, func(t *testing.T) {
			if !slices.Contains(full.report.Applied, layer) {
				t.Fatalf("not applied to begin with: %v", full.report.Applied)
			}
			without := []string{layer}
			weak := b.start(t, row{}, without, c.spec)
			if slices.Contains(inseparable(), layer) {
				if reason.Of(weak.err) != reason.SandboxUnavailable {
					t.Errorf("bubblewrap cannot leave it out, and still: %v", weak)
				}
				return
			}
			if weak.err != nil {
				t.Fatalf("the program did not run: %v", weak)
			}
			if slices.Contains(weak.report.Applied, layer) {
				t.Errorf("said to be applied though it was left out: %v", weak.report.Applied)
			}
			if level := sandbox.Level(egress.Strict, weak.report.Requested, weak.report.Applied); layer != groups && level != sandbox.LevelNone {
				t.Errorf("the level is %s without %s", level, layer)
			}
			required := c.spec
			required.Required = []string{layer}
			if a := b.start(t, row{}, without, required); reason.Of(a.err) != reason.SandboxUnavailable || a.said != "" {
				t.Errorf("a tool that requires it: %s, want a refusal", a)
			}
			if a := b.start(t, row{}, nil, required); a.err != nil {
				t.Errorf("a tool that requires it, where it is: %v", a.err)
			}
		})
	}
}

// inseparable lists the layers that bubblewrap always creates. A sandbox that is configured
// without one of them refuses to run.
func inseparable() []string { return layers("user_namespace", "mount_namespace", noNewPrivs) }

func downgraded(r sandbox.Report, layer string) bool {
	return slices.ContainsFunc(r.Downgrades, func(d string) bool { return strings.HasPrefix(d, layer+":") })
}
