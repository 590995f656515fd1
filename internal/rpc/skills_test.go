package rpc_test

import (
	"path/filepath"

	"palyra/internal/must"
	"palyra/internal/skill"
	"palyra/internal/skill/registry"
	"palyra/internal/skill/registry/registrytest"
)

// openSkills is a registry in which nothing is installed.
func (w *world) openSkills() *registry.Registry {
	w.t.Helper()
	return must.Get(registry.New(w.t.Context(), registry.Config{
		Store: &registrytest.Memory{}, Dir: filepath.Join(w.t.TempDir(), "skills"), Limits: skill.DefaultLimits(), Now: w.now,
	}))(w.t)
}
