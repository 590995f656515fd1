//go:build unix && !linux

package main

// forbidDumps prevents a crash of palyrad from writing a core file.
func forbidDumps() error { return forbidCoreFiles() }
