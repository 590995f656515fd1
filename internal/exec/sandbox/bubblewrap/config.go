// Package bubblewrap implements Tier C on Linux: a program in separate namespaces, built by
// bubblewrap and completed by palyra-init, the helper that is embedded in this package. Package
// jail supervises the run. This package lays out the root directory of the program, mounts its
// workspace (read-only, as a copy, or directly), and prepares some sandboxes before a call.
//
// bubblewrap receives paths and not descriptors, because --bind-fd is newer than 0.8, the
// version of stable distributions. A path cannot be replaced unnoticed: either palyrad makes
// the mount for one run, or palyra-init compares device and inode of /workspace with the opened
// directory. Generated files are copied from memory by --file, because a mount for each costs
// more than copying its bytes.
package bubblewrap

import (
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
)

// Config configures the sandboxes. The zero value runs no programs.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// Bwrap is the path of bubblewrap, "" for /usr/bin/bwrap.
	Bwrap string
	// If the daemon is root, each sandbox uses one of Users user IDs, starting at FirstUser
	// (jail.Config). The daemon of an ordinary user runs the sandboxes as that user.
	FirstUser, Users int
	UserRecord       string
	// LayerDir is a directory of the daemon, mode 0700, for the copies of workspaces.
	// QuarantineDir is a similar directory for protected files that programs created in a
	// workspace with direct writes. A run is refused if it needs a directory that is not set.
	LayerDir      string
	QuarantineDir string
	// Outward configures the access of programs to hosts.
	Outward proxy.Outward `json:"-"`
	// Prepared is the maximum number of prepared sandboxes for calls similar to recent calls.
	Prepared int
	// StrictExec denies executing a file without a path, such as a memory file (memfd_create(2)).
	StrictExec bool
	// Room is the resource limit of all runs together.
	Room sandbox.Room
	// Without lists layers that are omitted even if a run requests them. The program still runs,
	// and its level is none. Without exists to demonstrate the effect of a missing layer;
	// Runner.Examine uses the same mechanism.
	Without []string
}
