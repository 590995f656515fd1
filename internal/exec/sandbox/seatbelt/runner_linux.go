package seatbelt

import (
	"syscall"

	"palyra/internal/core/reason"
)

// New returns a Runner that refuses every run: Seatbelt is a part of macOS. The rest of the
// runner is built on Linux as well, so that its tests run there.
func New(cfg Config) (*Runner, error) {
	return &Runner{cfg: cfg, problem: reason.Errorf(reason.PlatformUnknown, "Seatbelt is a part of macOS")}, nil
}

// peakMemory returns the memory in bytes. Maxrss is in KiB on Linux.
func peakMemory(u *syscall.Rusage) int64 { return u.Maxrss << 10 }
