//go:build !linux

package systemd

import "os"

// Main exists on Linux only.
func Main() { os.Exit(1) }
