package jail

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// The layers, as attestations name them.
const (
	LayerUserNS      = "user_namespace"
	LayerMounts      = "mount_namespace"
	LayerPIDs        = "pid_namespace"
	LayerNetwork     = sandbox.NetworkNamespace
	LayerIPC         = "ipc_namespace"
	LayerUTS         = "uts_namespace"
	LayerCgroupNS    = "cgroup_namespace"
	LayerUID         = "unprivileged_user"
	LayerCaps        = "no_capabilities"
	LayerNNP         = "no_new_privs"
	LayerSeccomp     = "seccomp"
	LayerLandlock    = "landlock"
	LayerGroup       = sandbox.ControlGroup
	LayerRlimits     = "rlimits"
	LayerCopy        = "copy_on_write"
	LayerMasks       = "proc_masks"
	LayerDescriptors = "closed_descriptors"
	LayerEnvironment = "empty_environment"
	LayerRoot        = "minimal_root"
	LayerSession     = "new_session"
)

// AllowedHosts is the name of an examination: whether a program with allowed hosts reaches only
// these hosts. It is not a layer: LayerNetwork and palyrad's proxy together have that effect.
const AllowedHosts = "allowed_hosts"

// AllRuns is the group around all runs, for Config.Without. It is not a layer of a run. It
// prevents all runs together from using up the resources that palyrad needs.
const AllRuns = "all_runs"

// namespaceLayers maps kinds to layers.
var namespaceLayers = []struct{ kind, layer string }{
	{"user", LayerUserNS}, {"mnt", LayerMounts}, {"pid", LayerPIDs}, {"net", LayerNetwork},
	{"ipc", LayerIPC}, {"uts", LayerUTS}, {"cgroup", LayerCgroupNS},
}

// proofs determine for each layer whether the report proves it.
var proofs = map[string]func(*evidence) bool{
	LayerUserNS:      namespace("user"),
	LayerMounts:      namespace("mnt"),
	LayerPIDs:        namespace("pid"),
	LayerNetwork:     namespace("net"),
	LayerIPC:         namespace("ipc"),
	LayerUTS:         namespace("uts"),
	LayerCgroupNS:    namespace("cgroup"),
	LayerUID:         (*evidence).unprivileged,
	LayerCaps:        (*evidence).powerless,
	LayerNNP:         func(e *evidence) bool { return e.report.NoNewPrivs },
	LayerSeccomp:     (*evidence).filtered,
	LayerLandlock:    func(e *evidence) bool { return e.report.LandlockABI > 0 },
	LayerGroup:       func(e *evidence) bool { return e.machine.Level() != cgroup.Rlimit && e.group.Holds(e.init) },
	LayerRlimits:     (*evidence).limitsHold,
	LayerCopy:        (*evidence).copied,
	LayerMasks:       func(e *evidence) bool { return len(e.plan.Spec.Inner.Masks) > 0 && len(e.report.Unmasked) == 0 },
	LayerDescriptors: func(e *evidence) bool { return e.report.Strays == 0 },
	LayerEnvironment: func(e *evidence) bool { return !e.report.Environ },
	LayerRoot:        func(e *evidence) bool { return slices.Equal(e.report.Root, e.plan.Root) },
	LayerSession:     (*evidence).ownSession,
}

// modeFilter is SECCOMP_MODE_FILTER.
const modeFilter = 2

func namespace(kind string) func(*evidence) bool {
	return func(e *evidence) bool {
		inode := e.report.Namespaces[kind]
		return inode != 0 && inode != e.machine.host.own[kind]
	}
}

// Empty reports whether a mask of capabilities, in hexadecimal, is zero.
func Empty(mask string) bool {
	return mask != "" && strings.Trim(mask, "0") == ""
}

// unprivileged checks the user of the sandbox, both inside and on the host.
func (e *evidence) unprivileged() bool {
	want, r := e.plan.User.UID, e.report
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.init))
	within := User{e.plan.ID, e.plan.ID}
	if e.plan.ID == 0 {
		within = e.plan.User
	}
	if err != nil || want == 0 || (User{r.UID, r.GID}) != within {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return strings.Join(strings.Fields(ids), " ") == fmt.Sprintf("%d %d %d %d", want, want, want, want)
		}
	}
	return false
}

// powerless reports whether all sets of capabilities are empty. It ignores the bounding set for
// an ordinary user without a user namespace, who can neither empty that set nor gain its
// capabilities.
func (e *evidence) powerless() bool {
	r := e.report
	gainless := Empty(r.CapBnd) || e.plan.Spec.Inner.Parent != 0 && !e.machine.Root() && r.NoNewPrivs
	return Empty(r.CapEff) && Empty(r.CapPrm) && Empty(r.CapInh) && Empty(r.CapAmb) && gainless
}

// filtered reports whether a filter was installed in addition to the filters that the daemon
// and the backend installed.
func (e *evidence) filtered() bool {
	r := e.report
	return r.Seccomp == modeFilter && r.Filters > e.machine.host.filters+e.plan.Filters
}

// ownSession reports whether the sandbox has its own session. In a process namespace, a session
// from outside has the number 0.
func (e *evidence) ownSession() bool {
	if namespace("pid")(e) {
		return e.report.Session > 0
	}
	return e.report.Session == e.init
}

// limitsHold reports whether the limits are in force. It also requires that the kernel kills
// the run before palyrad if memory runs out.
func (e *evidence) limitsHold() bool {
	if e.report.OOMScore != inside.DieFirst {
		return false
	}
	for _, l := range e.rlimits {
		if got, ok := e.report.Rlimits[l.Name]; !ok || got != l.Soft {
			return false
		}
	}
	return len(e.rlimits) > 0
}

// copied compares the overlay mounted by the outer stage with the workspace that the inner stage
// finds.
func (e *evidence) copied() bool {
	outer := e.mounted
	return e.plan.Layer != nil && outer != nil && e.report.Overlay && *outer == e.report.Workspace
}
