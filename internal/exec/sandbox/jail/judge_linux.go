package jail

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// evidence contains the observations about a run before its program starts, and proves from them
// which layers of the plan are in force. The program MUST NOT start before judge has succeeded.
type evidence struct {
	machine *Machine
	plan    *Plan
	group   *cgroup.Group

	mounted *inside.Identity
	report  inside.Report
	// filter is the filter of the order.
	filter  *filter
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
func (e *evidence) judge(required []string) error {
	var unproved []string
	for _, layer := range e.plan.Requested {
		if proofs[layer](e) {
			e.applied = append(e.applied, layer)
			continue
		}
		why, excused := e.excuse(layer)
		if excused {
			e.downgrades = append(e.downgrades, layer+": "+why)
		}
		if !excused && !e.machine.Without(layer) || slices.Contains(required, layer) {
			unproved = append(unproved, layer)
		}
	}
	for _, layer := range required {
		if !slices.Contains(e.plan.Requested, layer) {
			unproved = append(unproved, layer)
		}
	}
	if len(unproved) == 0 {
		return nil
	}
	return e.unproved(unproved)
}

// unproved names the layers that are not in force, with the known cause.
func (e *evidence) unproved(layers []string) error {
	file, fault, remedy := "", "", "Nothing ran. See `palyrad doctor` for the capabilities of this machine."
	if r := e.report; slices.Contains(layers, LayerMasks) && len(r.Unmasked) > 0 {
		file, fault = r.Unmasked[0], ": the null device does not cover "+strings.Join(r.Unmasked, ", ")
		if nullIs := notNull(e.machine.host.null); nullIs != "" {
			file = e.machine.host.null
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
func (e *evidence) excuse(layer string) (why string, ok bool) {
	if why, ok = e.machine.lacks(layer); ok {
		return why, ok
	}
	why, ok = e.plan.Excused[layer]
	return why, ok
}

// isolation returns the attested form of the report.
func (e *evidence) isolation(prepared bool, argumentsSHA string) tool.Isolation {
	r := e.report
	i := tool.Isolation{
		Measured: tool.Measured{
			UID: r.UID, GID: r.GID, CapEff: r.CapEff, CapBnd: r.CapBnd, CapPrm: r.CapPrm,
			NoNewPrivs: r.NoNewPrivs, SeccompMode: r.Seccomp, LandlockABI: r.LandlockABI, LimitsBy: e.machine.Level(),
			Kernel: e.machine.host.kernel, Rung: string(e.plan.Rung), Workspace: string(e.plan.mode()),
			Watched: r.Watched, Prepared: prepared, Captured: e.captured, Ports: e.ports,
		},
		Namespaces: r.Namespaces, Rlimits: r.Rlimits,
		HelperSHA: e.machine.files.helper.sha, ArgumentsSHA: argumentsSHA, BackendSHA: e.plan.BackendSHA,
	}
	if slices.Contains(e.applied, LayerSeccomp) {
		i.SeccompSHA = e.filter.plain.sha
		if r.Watched {
			i.SeccompSHA = e.filter.watched.sha
		}
	}
	if slices.Contains(e.applied, LayerGroup) {
		i.Cgroup = e.group.Name()
	}
	return i
}
