//go:build unix && !linux

package main

// forbidDumps keeps a crash of palyrad from writing a core file.
func forbidDumps() error { return forbidCoreFiles() }
