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
var proofs = map[string]func(*Cell) bool{
	LayerUserNS:      namespace("user"),
	LayerMounts:      namespace("mnt"),
	LayerPIDs:        namespace("pid"),
	LayerNetwork:     namespace("net"),
	LayerIPC:         namespace("ipc"),
	LayerUTS:         namespace("uts"),
	LayerCgroupNS:    namespace("cgroup"),
	LayerUID:         (*Cell).unprivileged,
	LayerCaps:        (*Cell).powerless,
	LayerNNP:         func(c *Cell) bool { return c.seen.report.NoNewPrivs },
	LayerSeccomp:     (*Cell).filtered,
	LayerLandlock:    func(c *Cell) bool { return c.seen.report.LandlockABI > 0 },
	LayerGroup:       func(c *Cell) bool { return c.machine.Level() != cgroup.Rlimit && c.group.Holds(c.seen.init) },
	LayerRlimits:     (*Cell).limitsHold,
	LayerCopy:        (*Cell).copied,
	LayerMasks:       func(c *Cell) bool { return len(c.plan.Spec.Inner.Masks) > 0 && len(c.seen.report.Unmasked) == 0 },
	LayerDescriptors: func(c *Cell) bool { return c.seen.report.Strays == 0 },
	LayerEnvironment: func(c *Cell) bool { return !c.seen.report.Environ },
	LayerRoot:        func(c *Cell) bool { return slices.Equal(c.seen.report.Root, c.plan.Root) },
	LayerSession:     (*Cell).ownSession,
}

// modeFilter is SECCOMP_MODE_FILTER.
const modeFilter = 2

func namespace(kind string) func(*Cell) bool {
	return func(c *Cell) bool {
		inode := c.seen.report.Namespaces[kind]
		return inode != 0 && inode != c.machine.own[kind]
	}
}

// Empty reports whether a mask of capabilities, in hexadecimal, is zero.
func Empty(mask string) bool {
	return mask != "" && strings.Trim(mask, "0") == ""
}

// unprivileged checks the user of the sandbox, both inside and on the host.
func (c *Cell) unprivileged() bool {
	want, r := c.plan.User.UID, c.seen.report
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.seen.init))
	within := User{c.plan.ID, c.plan.ID}
	if c.plan.ID == 0 {
		within = c.plan.User
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
func (c *Cell) powerless() bool {
	r := c.seen.report
	gainless := Empty(r.CapBnd) || c.plan.Spec.Inner.Parent != 0 && !c.machine.Root() && r.NoNewPrivs
	return Empty(r.CapEff) && Empty(r.CapPrm) && Empty(r.CapInh) && Empty(r.CapAmb) && gainless
}

// filtered reports whether a filter was installed in addition to the filters that the daemon
// and the backend installed.
func (c *Cell) filtered() bool {
	r := c.seen.report
	return r.Seccomp == modeFilter && r.Filters > c.machine.filters+c.plan.Filters
}

// ownSession reports whether the sandbox has its own session. In a process namespace, a session
// from outside has the number 0.
func (c *Cell) ownSession() bool {
	if namespace("pid")(c) {
		return c.seen.report.Session > 0
	}
	return c.seen.report.Session == c.seen.init
}

// limitsHold reports whether the limits are in force. It also requires that the kernel kills
// the run before palyrad if memory runs out.
func (c *Cell) limitsHold() bool {
	if c.seen.report.OOMScore != inside.DieFirst {
		return false
	}
	for _, l := range c.seen.rlimits {
		if got, ok := c.seen.report.Rlimits[l.Name]; !ok || got != l.Soft {
			return false
		}
	}
	return len(c.seen.rlimits) > 0
}

// copied compares the overlay mounted by the outer stage with the workspace that the inner stage
// finds.
func (c *Cell) copied() bool {
	outer := c.seen.mounted
	return c.plan.Layer != nil && outer != nil && c.seen.report.Overlay && *outer == c.seen.report.Workspace
}
