package jail

import (
	"slices"
	"strings"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/tool"
)

// seen is what was learned about a run before its gate was opened.
type seen struct {
	mounted *inside.Identity
	report  inside.Report
	rlimits []inside.Rlimit
	// init is the host's pid of the sandbox's first process.
	init       int
	applied    []string
	downgrades []string
	unpinned   []string
	// captured and ports are what the program's connections lead to.
	captured []string
	ports    []int
	started  bool
}

// judge compares the read-back with what was asked for. It refuses when a layer
// is neither proved nor known to be missing on this host, or when the call
// insists on one that is missing.
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
	return reason.Errorf(reason.SandboxUnavailable, "these layers are not in force inside: %s", strings.Join(unproved, ", ")).
		WithRemedy("Nothing ran. See `palyra status` for what this machine can do.")
}

// excuse says why this host may lack a layer.
func (c *Cell) excuse(layer string) (why string, ok bool) {
	if why, ok = c.machine.lacks(layer); ok {
		return why, ok
	}
	why, ok = c.plan.Excused[layer]
	return why, ok
}

// isolation is the attested form of the read-back.
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
