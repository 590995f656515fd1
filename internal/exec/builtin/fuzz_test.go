package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func link(t *testing.T, target, name string) {
	t.Helper()
	must.Do(t, os.Symlink(target, name))
}

func toolCall(p tool.Proposal, plan tool.Plan) tool.Call { return tool.Call{Proposal: p, Plan: plan} }

// siblings lists the names in the parent of a directory.
func siblings(t *testing.T, dir string) string {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Dir(dir)))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
