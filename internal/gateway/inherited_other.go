//go:build !linux

package gateway

// KeepInherited does nothing: only Linux passes descriptors to sandboxes.
func KeepInherited() error { return nil }
