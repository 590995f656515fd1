//go:build !linux

package gateway

// KeepInherited has nothing to do: only Linux hands descriptors down to
// sandboxes.
func KeepInherited() error { return nil }
