// Package bubblewrap is Tier C on Linux: a program in namespaces of its own,
// built by bubblewrap and finished by palyra-init, the helper that this package
// carries with it. Package jail supervises the run. This package lays out the
// root directory that a program sees, mounts its workspace (read-only, as a copy,
// or directly), and builds some sandboxes before a call comes.
package bubblewrap

import (
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
)

// Config says how sandboxes are built. Its zero value runs nothing.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// Bwrap is the path of bubblewrap, "" for /usr/bin/bwrap.
	Bwrap string
	// When the daemon is root, each sandbox has one of Users users from
	// FirstUser on (jail.Config). An ordinary user's daemon runs them as that
	// user.
	FirstUser, Users int
	// LayerDir is a directory of the daemon's, mode 0700, for what programs
	// write to their copy of a workspace, and QuarantineDir one for protected
	// files that programs made in a workspace that they wrote to directly.
	// Without them such runs are refused.
	LayerDir      string
	QuarantineDir string
	// Outward is what programs with hosts reach.
	Outward proxy.Outward `json:"-"`
	// Prepared is how many sandboxes may stand ready for calls like the last
	// ones.
	Prepared int
	// StrictExec denies executing a file that has no path, such as a memory
	// file (memfd_create(2)).
	StrictExec bool
	// Room is what all runs together may use.
	Room sandbox.Room
	// Without lists layers that are left out although a run asks for them. The
	// program runs all the same, and its level is none. It exists to show what
	// a program can do when the layer is missing; Runner.Examine does the same.
	Without []string
}
