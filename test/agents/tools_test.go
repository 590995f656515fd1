//go:build unix

package agents

import (
	"slices"
	"testing"

	"palyra/internal/surface/hook"
)

// TestEveryToolHasARow checks that every tool that the installed agents offer their model has a
// row. A tool without a row is judged as an unknown tool.
func TestEveryToolHasARow(t *testing.T) {
	t.Parallel()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			p := newPerson(t)
			a.run(p, false)
			i := slices.IndexFunc(hook.Agents, func(h *hook.Agent) bool { return h.Name == a.name })
			offered := p.model.offered()
			if len(offered) == 0 {
				t.Fatal("the agent offered no tool")
			}
			// Claude Code offers most of its tools on demand. The test must find these, too.
			if a == claude && !offered["WebFetch"] {
				t.Error("the tools on demand were not found in what the agent sent")
			}
			var sorted []string
			for name := range offered {
				sorted = append(sorted, name)
				if !hook.Agents[i].Knows(name) && a.known[name] == "" {
					t.Errorf("%s offers %q, which has no row in the table of internal/surface/hook", a.name, name)
				}
			}
			slices.Sort(sorted)
			t.Logf("%s offers %v", a.name, sorted)
		})
	}
}
