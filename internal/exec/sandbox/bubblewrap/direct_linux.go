package bubblewrap

import (
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// guard returns the guard of the protected paths of a workspace that the call writes to directly;
// it is nil for other calls.
func (r *Runner) guard(s sandbox.Spec, w *jail.Directory) (*jail.Guard, error) {
	if s.Workspace != sandbox.Direct {
		return nil, nil //nolint:nilnil // no guard is needed
	}
	return jail.NewGuard(w, s, r.cfg.QuarantineDir)
}
