// Package process is Tier B on Linux: an ordinary process of the host, bounded
// and filtered. It sees the host's root directory, of which Landlock leaves it
// the system's programs, the workspace and a few directories of the run's own.
// Package process supervises the run.
//
// There are two rungs.
//
// With user namespaces, the program has network, process, mount and IPC
// namespaces of its own. Its workspace may be a copy, and every mount that is not
// the run's own is read-only. palyra-init stays as process 1 of the process
// namespace, which is no role for the program: process 1 gets no signal that it
// does not handle, and has to wait for orphans.
//
// Without user namespaces there are only Landlock and seccomp. They deny files,
// TCP, UDP, signals, and IPC objects that have no path (System V IPC and POSIX
// message queues). A report lists what they cannot deny under downgrades.
//
// On either rung a program can learn the size of any host file that its user may
// stat: Landlock does not cover stat(2).
package process

import (
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
)

// Config says how sandboxes are built. Its zero value runs nothing.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// Lowest is the lowest rung that may be used, sandbox.UserNamespaces when
	// it is "".
	Lowest sandbox.Isolation
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
	// Outward is what programs with hosts reach; only the better rung has a way
	// to it.
	Outward proxy.Outward
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
