package workspace

import (
	"os"
	"path/filepath"
)

// HostPath returns the absolute path on this machine of a resolved name in a workspace. The
// result does not depend on the workspace that is named: a directory may be declared under
// several names, workspaces may be nested, and a directory may be mounted twice.
func (s *Set) HostPath(workspace, real string) (string, error) {
	d, err := s.find(workspace)
	if err != nil {
		return "", err
	}
	own, err := os.Stat(d.Path)
	if err != nil {
		return "", failure("inspecting", d.Path, err)
	}
	at := d.Path
	for _, other := range s.byName {
		if info, err := os.Stat(other.Path); err == nil && os.SameFile(own, info) {
			at = min(at, other.Path)
		}
	}
	return filepath.Join(at, filepath.FromSlash(real)), nil
}
