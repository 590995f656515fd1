// Package process is Tier B on Linux: an ordinary process of the host, bounded
// and filtered. It has no root of its own: Landlock narrows the host's to the
// system's programs, the workspace and a few places of the run's own. What a run
// is made of, and how it is supervised, is package jail's.
//
// It has two rungs. With user namespaces, the program has networks, processes,
// mounts and IPC of its own, in which its workspace may be a copy; palyra-init
// stays as the first of its processes, because a program that were it would be
// deaf to signals and would have to wait for orphans; every mount that is not the
// run's own is read-only. Without them, Landlock and seccomp stand alone: they
// deny files, TCP, UDP, signals and what processes share without a name. What
// they cannot deny, a report lists under downgrades. On either rung a program
// can learn whether a file of the host exists, and its size, when its user may:
// Landlock does not cover stat(2).
package process

import (
	"palyra/internal/egress/proxy"
	"palyra/internal/sandbox"
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
	// StrictExec keeps programs from running what is in no file system, such
	// as a memory file (memfd_create(2)).
	StrictExec bool
	// Without lists layers that are left out, although a run asks for them:
	// the program runs all the same, and its level is none. It serves to show
	// what a layer is good for (Runner.Examine) and nothing else.
	Without []string
}
