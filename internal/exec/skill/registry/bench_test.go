package registry_test

import (
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
)

// BenchmarkLoad measures the cost of each call: loading a package of 3 MiB that was loaded
// before.
func BenchmarkLoad(b *testing.B) {
	r := must.Get(registry.New(b.Context(), registry.Config{Guard: change.Unguarded, Store: newStore(b), Dir: filepath.Join(b.TempDir(), "skills"), Limits: skill.DefaultLimits()}))(b)
	data := registrytest.Padded(b, registrytest.Manifest, registrytest.Key("example.org"), 3<<20)
	must.Get(r.Install(b.Context(), alice, registrytest.Stage(b, r, alice, data)))(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if p := must.Get(r.Load(b.Context(), "notes", ""))(b); !strings.HasPrefix(p.Digest, "sha256:") {
			b.Fatal(p.Digest)
		}
	}
}
