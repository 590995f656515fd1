package trusted

import "golang.org/x/sys/unix"

// readOnly reports whether the file system of a path is mounted read-only, such as a Kubernetes
// ConfigMap, whose directory has mode 0777.
func readOnly(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
