//go:build !linux

package places

import (
	"io"
	"os"
	"strconv"
)

// mark names this daemon.
func mark() string { return strconv.Itoa(os.Getpid()) }

// pattern is the pattern of the directories of Temporary.
func pattern() string { return "palyra-tmp-" + mark() + "-" }

// hold does nothing, because nothing removes the directory.
func hold(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// SweepTemporary does nothing.
func SweepTemporary(string) error { return nil }

// Sweep does nothing, because programs have no copies of workspaces on this platform.
func Sweep(string) error { return nil }
