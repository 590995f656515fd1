//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func forbidCoreFiles() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disabling core files of palyrad: %w", err)
	}
	return nil
}
