package workspace

import (
	"os"
	"path/filepath"
)

// HostPath is the path of the machine that a resolved name of a workspace stands
// for: the same for every workspace that has the file, also where one
// directory was declared by several names, one workspace lies in another, or a
// directory is mounted twice.
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
