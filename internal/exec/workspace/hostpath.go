package workspace

import (
	"os"
	"path/filepath"
)

// HostPath is the absolute path on this machine of a resolved name in a workspace.
// It is the same path whichever workspace is named, also when one directory was
// declared under several names, one workspace lies in another, or a directory is
// mounted twice.
func (s *Set) HostPath(workspace, real string) (string, error) {
	d, err := s.find(workspace)
	if err != nil {
		return "", err
	}
	own, err := os.Stat(d.Path)
	if err != nil {
		return "", failure("looking at", d.Path, err)
	}
	at := d.Path
	for _, other := range s.byName {
		if info, err := os.Stat(other.Path); err == nil && os.SameFile(own, info) {
			at = min(at, other.Path)
		}
	}
	return filepath.Join(at, filepath.FromSlash(real)), nil
}
