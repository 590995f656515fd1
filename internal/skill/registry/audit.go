package registry

import (
	"context"

	"palyra/internal/skill"
)

// Audit looks at a version as an installation would, whatever its status. The error is why
// it does not run, that of Load; findings come with it where the package can be read.
func (r *Registry) Audit(ctx context.Context, name, version string) ([]skill.Finding, error) {
	p, stopped := r.Load(ctx, name, version)
	if stopped != nil {
		i, err := r.Get(name, version)
		if err != nil {
			return nil, err
		}
		if p, err = r.read(i); err != nil {
			return nil, stopped
		}
	}
	return skill.Audit(p, r.c.Limits), stopped
}

// Asks are what the tools of a skill ask for, in words.
func Asks(m *skill.Manifest) []string { return gains(nil, m) }
