package jail

import (
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/workspace/overlay"
)

// The order distinguishes the checked program from a replacement, and from a later state of the
// same file. A file of a copy is a different file, so its bytes are pinned.
func TestOrderNamesTheProgram(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	p := must.Get(m.Resolver().ResolveExecutable("true", command.SearchPath()))(t)
	whole := stateOf(t, p.Path)
	for name, c := range map[string]struct {
		layer       *overlay.Layer
		inWorkspace bool
		want        inside.Identity
	}{
		"of the system":            {nil, false, whole},
		"of the system, on a copy": {new(overlay.Layer), false, whole},
		"of the workspace":         {nil, true, whole},
		"of a copy":                {new(overlay.Layer), true, inside.Identity{Size: whole.Size}},
	} {
		w := Work{Spec: sandbox.Spec{Executable: p.Executable}, InWorkspace: c.inWorkspace}
		o := order{machine: m, plan: &Plan{Layer: c.layer}}
		if err := o.program(w); err != nil || o.order.File != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, o.order.File, err, c.want)
		}
		w.Spec.Executable.SHA256 = Digest([]byte("another"))
		if err := o.program(w); reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: other bytes: %v", name, err)
		}
	}
}
