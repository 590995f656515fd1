package bubblewrap

import (
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/seccomp"
)

// private reports whether the run reaches no socket and no terminal of another program, so that it
// may have its own. A socket of the workspace cannot be connected in a copy of it, nor one of a
// toolchain, which is layered then. Abstract sockets belong to a network namespace. Caches are
// shared with other runs, and Landlock forbids all of them to make a socket there. The remaining
// mounts of the host, /usr and parts of /etc, belong to root.
func (d *draft) private() bool {
	m := d.runner.machine
	for _, layer := range []string{jail.LayerNetwork, jail.LayerRoot, jail.LayerMounts} {
		if m.Without(layer) {
			return false
		}
	}
	return d.mode() == sandbox.CopyOnWrite && !d.layout.hostNetwork && (len(d.spec.Caches) == 0 || d.landlocked())
}

// landlocked reports whether Landlock will be in force.
func (d *draft) landlocked() bool {
	return d.runner.machine.Landlock() > 0 && !d.runner.machine.Without(jail.LayerLandlock)
}

// terminals gives a private run its own pseudo terminals.
func (d *draft) terminals() error {
	if d.private() {
		d.layout.terminals = d.stage.Terminals()
	}
	return nil
}

// grant allows the system calls whose effects the layers of the run contain. The program of a
// session is a server, or runs code that must not have more calls than it needs, and traces
// nothing.
func (d *draft) grant() {
	private := d.private()
	d.plan.Grants = seccomp.Grants{
		LocalSockets: private, Terminals: private,
		Tracing: d.spec.Session == nil && d.landlocked() && !d.runner.machine.Without(jail.LayerPIDs),
	}
}
