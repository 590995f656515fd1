//go:build !linux

package sqlitetest

// newMemoryDir returns "": only Linux is known to have a directory in memory.
func newMemoryDir() string { return "" }
