//go:build unix && !linux

package trusted

// sharedByList returns false: palyrad does not support the access control lists of this system.
func sharedByList(string) bool { return false }
