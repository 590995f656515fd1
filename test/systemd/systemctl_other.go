//go:build !linux

package systemd

import "os"

// Main is of Linux alone.
func Main() { os.Exit(1) }
