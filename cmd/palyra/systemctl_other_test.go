//go:build !linux

package main

import "os"

// systemctl is of Linux alone.
func systemctl() { os.Exit(1) }
