// Package process implements Tier B on Linux: an ordinary process of the host with limits and
// filters. It runs on the host's root directory, but Landlock restricts its access to the
// system's programs, the workspace and a few directories of the run. The package jail supervises
// the run.
//
// There are two rungs.
//
// With user namespaces, the program has separate network, process, mount and IPC namespaces.
// Its workspace may be a copy, and every mount that does not belong to the run is read-only.
// palyra-init stays as process 1 of the process namespace. The program is not suitable for that
// role: process 1 receives no signal that it does not handle, and must reap orphans.
//
// Without user namespaces only Landlock and seccomp restrict the program. They deny files, TCP,
// UDP, signals, and IPC objects that have no path (System V IPC and POSIX message queues). A
// report lists what they cannot deny under downgrades.
//
// On both rungs a program can learn the size of any host file that its user may stat: Landlock
// does not cover stat(2).
package process

import (
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
)

// Config configures the sandboxes. The zero value runs no programs.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// Lowest is the lowest rung that may be used, sandbox.UserNamespaces if it is "".
	Lowest sandbox.Isolation
	// If the daemon is root, each sandbox uses one of Users user IDs, starting at FirstUser
	// (jail.Config). The daemon of an ordinary user runs the sandboxes as that user.
	FirstUser, Users int
	UserRecord       string
	// LayerDir is a directory of the daemon, mode 0700, for the copies of workspaces.
	// QuarantineDir is a similar directory for protected files that programs created in a
	// workspace with direct writes. A run is refused if it needs a directory that is not set.
	LayerDir      string
	QuarantineDir string
	// Outward configures the access of programs to hosts; only the better rung supports it.
	Outward proxy.Outward
	// StrictExec denies executing a file without a path, such as a memory file (memfd_create(2)).
	StrictExec bool
	// Room is the resource limit of all runs together.
	Room sandbox.Room
	// Without lists layers that are omitted even if a run requests them. The program still runs,
	// and its level is none. Without exists to demonstrate the effect of a missing layer;
	// Runner.Examine uses the same mechanism.
	Without []string
}
