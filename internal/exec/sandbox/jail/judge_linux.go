package jail

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// seen contains the observations about a run before its program starts.
type seen struct {
	mounted *inside.Identity
	report  inside.Report
	rlimits []inside.Rlimit
	// init is the pid of the sandbox's first process on the host.
	init       int
	applied    []string
	downgrades []string
	unpinned   []string
	// captured and ports describe which connections of the program reach the listeners.
	captured []string
	ports    []int
	started  bool
}

// judge compares the report with the requested layers. It fails if a layer is neither proved nor
// known to be missing on this host, or if the call requires a missing layer.
func (c *Cell) judge(required []string) error {
	var unproved []string
	for _, layer := range c.plan.Requested {
		if proofs[layer](c) {
			c.seen.applied = append(c.seen.applied, layer)
			continue
		}
		why, excused := c.excuse(layer)
		if excused {
			c.seen.downgrades = append(c.seen.downgrades, layer+": "+why)
		}
		if !excused && !c.machine.Without(layer) || slices.Contains(required, layer) {
			unproved = append(unproved, layer)
		}
	}
	for _, layer := range required {
		if !slices.Contains(c.plan.Requested, layer) {
			unproved = append(unproved, layer)
		}
	}
	if len(unproved) == 0 {
		return nil
	}
	return c.unproved(unproved)
}

// unproved names the layers that are not in force, with the known cause.
func (c *Cell) unproved(layers []string) error {
	file, fault, remedy := "", "", "Nothing ran. See `palyrad doctor` for the capabilities of this machine."
	if r := c.seen.report; slices.Contains(layers, LayerMasks) && len(r.Unmasked) > 0 {
		file, fault = r.Unmasked[0], ": the null device does not cover "+strings.Join(r.Unmasked, ", ")
		if nullIs := notNull(c.machine.null); nullIs != "" {
			file = c.machine.null
			fault += ", since " + file + " " + nullIs
			remedy = fmt.Sprintf("Nothing ran. Restore the device, as root: rm %[1]s && mknod -m 666 %[1]s c 1 3", file)
		}
	}
	return sandbox.Unbuilt(layers[0], file, "these layers are not in force inside: %s%s", strings.Join(layers, ", "), fault).WithRemedy("%s", remedy)
}

// notNull describes a file that is not the null device, "" for the device.
func notNull(name string) string {
	var st unix.Stat_t
	switch err := unix.Stat(name, &st); {
	case err != nil:
		return "cannot be checked: " + err.Error()
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return "is a regular file on this machine"
	case st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3):
		return "is not the null device on this machine"
	}
	return ""
}

// excuse returns the reason why this host may lack a layer.
func (c *Cell) excuse(layer string) (why string, ok bool) {
	if why, ok = c.machine.lacks(layer); ok {
		return why, ok
	}
	why, ok = c.plan.Excused[layer]
	return why, ok
}

// isolation returns the attested form of the report.
func (c *Cell) isolation(prepared bool) tool.Isolation {
	r := c.seen.report
	i := tool.Isolation{
		Measured: tool.Measured{
			UID: r.UID, GID: r.GID, CapEff: r.CapEff, CapBnd: r.CapBnd, CapPrm: r.CapPrm,
			NoNewPrivs: r.NoNewPrivs, SeccompMode: r.Seccomp, LandlockABI: r.LandlockABI, LimitsBy: c.machine.Level(),
			Kernel: c.machine.kernel, Rung: string(c.plan.Rung), Workspace: string(c.mode()),
			Watched: r.Watched, Prepared: prepared, Captured: c.seen.captured, Ports: c.seen.ports,
		},
		Namespaces: r.Namespaces, Rlimits: r.Rlimits,
		HelperSHA: c.machine.helper.sha, ArgumentsSHA: c.argumentsSHA, BackendSHA: c.plan.BackendSHA,
	}
	if slices.Contains(c.seen.applied, LayerSeccomp) {
		i.SeccompSHA = c.machine.plain.sha
		if r.Watched {
			i.SeccompSHA = c.machine.watched.sha
		}
	}
	if slices.Contains(c.seen.applied, LayerGroup) {
		i.Cgroup = c.group.Name()
	}
	return i
}

func (c *Cell) mode() sandbox.WorkspaceMode {
	if c.plan.Mode == "" {
		return sandbox.ReadOnly
	}
	return c.plan.Mode
}
