//go:build linux

package attack

import (
	"slices"

	"palyra/internal/exec/sandbox"
)

// row is one attack of the catalogue: an identifier and a variant. A row without a probe has
// its own test.
type row struct {
	id, variant string
	// source names where the attack was reported.
	source string
	// walls are the layers, as attestations name them, each of which stops the
	// attack alone.
	walls []string
	// rootWalls are further walls that apply if palyrad is root.
	rootWalls []string
	// aside are layers that are removed together with the walls, because without the walls these
	// layers would make the kernel refuse.
	aside []string
	// root marks an attack that is possible only if palyrad is root.
	root bool
	// groups marks an attack that only control groups can contain. Many ordinary users cannot
	// create control groups; the limits then apply per process and the report states it.
	groups bool
	// arch restricts the attack to machines of that architecture, entry to kernels that have the
	// entry.
	arch, entry string

	// first is the probe of an earlier run in the same workspace.
	first, probe []string
	// terminal starts palyrad at a terminal.
	terminal bool
	// bare runs the control as palyrad's user outside of any sandbox. Otherwise the user
	// namespace, which bubblewrap always creates, would also stop the attack.
	bare bool
	// prepare prepares the scene. It may add arguments of the probe.
	prepare func(*scene)
	effect  effect
	// lift disables a wall that is not a layer: it changes a limit of the call, or adds a rule
	// that allows the attack.
	lift func(*scene)
	// beside runs in another sandbox at the same time; besideAllow are the rules of that sandbox.
	beside      []string
	besideAllow []string
	// visit connects from outside to the port on which the probe listens.
	visit func(c *scene, port string)
	// told are reasons of package egress. The record must contain one of them for the denial.
	told string
	// uses marks an attack during which the secret must arrive at its proper host.
	uses bool
	// silent marks an attack whose denial is the absence of an answer.
	silent bool
}

func (r row) name() string { return r.id + " " + r.variant }

// ofSandbox reports whether TestBoundary tries the row; other rows have their own tests.
func (r row) ofSandbox() bool { return r.probe != nil || r.prepare != nil }

// layers returns the walls of the row for a palyrad that is or is not root.
func (r row) layers(root bool) []string {
	if !root {
		return r.walls
	}
	return append(slices.Clone(r.walls), r.rootWalls...)
}

// effect is the evidence of a successful attack.
type effect int

const (
	// word: the probe reports success.
	word effect = iota
	// outside: files outside of the workspace have changed.
	outside
	// inside: the workspace has changed without approval.
	inside
	// alive: a process of the run is still running after the run's end.
	alive
	// reached: a server of the world has received a connection.
	reached
	// leaked: the report of the run holds the secret.
	leaked
)

// These names denote the layers of rows.
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

// catalogue returns all rows, in the order in which they are printed.
func catalogue() []row {
	return slices.Concat(fileRows(), specialRows(), procRows(), namespaceRows(), kernelRows(), socketRows(), resourceRows(), shareRows(), isolationRows(),
		gatewayRows(), networkRows(), bypassRows(), addressRows(), hostRows(), tlsRows(), httpRows(), dnsRows(), carryRows(), neighbourRows(), secretRows(), vaultRows(), upstreamRows(), wasmRows())
}
