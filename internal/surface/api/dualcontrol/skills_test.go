package dualcontrol_test

import (
	"context"
	"path/filepath"
	"testing"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/store/sqlite/skills"
	"palyra/internal/store/sqlite/sqlitetest"
	apidualcontrol "palyra/internal/surface/api/dualcontrol"
)

var ada = access.Caller{Principal: access.User("ada"), OnBehalfOf: access.User("ada")}

// meanwhile is a registry that changes right after the inspection of a package.
type meanwhile struct {
	*registry.Registry
	happens func()
}

// Inspect inspects a package, and then makes the change.
func (m *meanwhile) Inspect(ctx context.Context, digest string) (registry.Inspection, error) {
	in, err := m.Registry.Inspect(ctx, digest)
	if happens := m.happens; happens != nil {
		m.happens = nil
		happens()
	}
	return in, err
}

// TestUpdateWithoutNewPermissions: an update without an approval is made only if it still gains
// no capabilities when it is made. It does not re-enable a version that was quarantined in between,
// even if its tools request no capabilities.
func TestUpdateWithoutNewPermissions(t *testing.T) {
	t.Parallel()
	for _, quarantined := range []bool{false, true} { // false is the control
		r := must.Get(registry.New(t.Context(), registry.Config{Guard: change.Unguarded, Store: skills.New(sqlitetest.Open(t)), Dir: filepath.Join(t.TempDir(), "skills"), Limits: skill.DefaultLimits()}))(t)
		file := func(version string) []byte {
			return registrytest.Package(t, registrytest.With(t, registrytest.Manifest, `version = "1.0.0"`, `version = "`+version+`"`), registrytest.Key("first"))
		}
		must.Get(r.Install(t.Context(), ada, registrytest.Stage(t, r, ada, file("1.0.0"))))(t)
		between := &meanwhile{Registry: r}
		if quarantined {
			between.happens = func() { must.Get(r.SetStatus(t.Context(), ada, "notes", "", registry.Quarantined, "odd"))(t) }
		}
		s := &apidualcontrol.Skills{SkillManager: between, Gate: &dualcontrol.Gate{}}
		_, err := s.Install(t.Context(), ada, registrytest.Stage(t, r, ada, file("1.1.0")))
		now := must.Get(r.Get("notes", ""))(t)
		switch {
		case quarantined && (reason.Of(err) != reason.BindingMismatch || now.Version != "1.0.0" || now.Status != registry.Quarantined):
			t.Errorf("%s is %s: %v", now.Name(), now.Status, err)
		case !quarantined && (err != nil || now.Version != "1.1.0" || now.Status != registry.Active):
			t.Errorf("the control: %s is %s: %v", now.Name(), now.Status, err)
		}
	}
}
