//go:build linux

package attack

import (
	"slices"

	"palyra/internal/exec/sandbox"
)

// row is one attack of the catalogue: an identifier, and the variant of it that
// is tried. A row without a probe belongs to a test of its own.
type row struct {
	id, variant string
	// source is where the attack was seen.
	source string
	// walls are the layers, as attestations name them, each of which stops the
	// attack alone.
	walls []string
	// rootWalls stand as well where palyrad is root.
	rootWalls []string
	// aside are layers that are taken away together with the walls, because
	// without them the kernel itself would refuse.
	aside []string
	// root marks an attack on what only a palyrad that is root could give away.
	root bool
	// groups marks an attack that needs control groups to be held; where none
	// can be made, as for many ordinary users, the limits hold per process and
	// the report says so.
	groups bool
	// arch and entry are set where an attack is one on machines of that kind
	// alone, or on kernels that have the entry.
	arch, entry string

	// first is what another run does before, in the same workspace.
	first, probe []string
	// terminal starts palyrad in front of a terminal.
	terminal bool
	// bare runs the control as palyrad's user outside of any sandbox: the user
	// namespace, without which bubblewrap cannot be, stops the attack as well.
	bare bool
	// prepare readies the scene. It may add arguments of the probe.
	prepare func(*scene)
	effect  effect
	// lift takes a wall away that is no layer: a limit that a call sets, or
	// the want of a rule that allows what the attack wants.
	lift func(*scene)
	// beside runs all the while in another sandbox, to which rules of its own
	// apply.
	beside      []string
	besideAllow []string
	// visit comes from outside to the port at which the probe listens.
	visit func(c *scene, port string)
	// told are words of package egress, one of which the record has to give as
	// the reason for what it denied.
	told string
	// uses marks an attack in whose course the secret has to arrive where it
	// belongs.
	uses bool
	// silent marks an attack that is denied by getting no answer.
	silent bool
}

func (r row) name() string { return r.id + " " + r.variant }

// ofSandbox reports whether TestBoundary tries the row; others have tests of
// their own.
func (r row) ofSandbox() bool { return r.probe != nil || r.prepare != nil }

// layers are the walls of the row for a palyrad that is or is not root.
func (r row) layers(root bool) []string {
	if !root {
		return r.walls
	}
	return append(slices.Clone(r.walls), r.rootWalls...)
}

// effect is where the success of an attack shows.
type effect int

const (
	// word: the probe says that it did it.
	word effect = iota
	// outside: files outside of the workspace have changed.
	outside
	// inside: the workspace has changed before anybody allowed it.
	inside
	// alive: a process of the run goes on after its end.
	alive
	// reached: a server of the world has something to report.
	reached
	// leaked: the report of the run holds the secret.
	leaked
)

// The layers that rows name.
const (
	root       = "minimal_root"
	landlock   = "landlock"
	copyLayer  = "copy_on_write"
	seccomp    = "seccomp"
	caps       = "no_capabilities"
	noNewPrivs = "no_new_privs"
	otherUser  = "unprivileged_user"
	userNS     = "user_namespace"
	pidNS      = "pid_namespace"
	netNS      = "network_namespace"
	ipcNS      = "ipc_namespace"
	utsNS      = "uts_namespace"
	procMasks  = "proc_masks"
	closedFDs  = "closed_descriptors"
	emptyEnv   = "empty_environment"
	newSession = "new_session"
	groups     = sandbox.ControlGroup
	rlimits    = "rlimits"
)

func layers(names ...string) []string { return names }

func probe(words ...string) []string { return words }

// catalogue is all rows, in the order in which they are printed.
func catalogue() []row {
	return slices.Concat(fileRows(), specialRows(), procRows(), namespaceRows(), kernelRows(), socketRows(), resourceRows(),
		gatewayRows(), networkRows(), bypassRows(), addressRows(), hostRows(), tlsRows(), httpRows(), dnsRows(), carryRows(), neighbourRows(), secretRows(), vaultRows(), upstreamRows(), wasmRows())
}
