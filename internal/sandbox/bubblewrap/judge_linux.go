package bubblewrap

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/tool"
)

// The layers, as attestations name them.
const (
	layerUser     = "user_namespace"
	layerUID      = "unprivileged_user"
	layerCaps     = "no_capabilities"
	layerNNP      = "no_new_privs"
	layerSeccomp  = "seccomp"
	layerLandlock = "landlock"
	layerCgroupNS = "cgroup_namespace"
	layerGroup    = sandbox.ControlGroup
	layerRlimits  = "rlimits"
)

// namespaceLayers maps kinds to layers.
var namespaceLayers = []struct{ kind, layer string }{
	{"user", layerUser}, {"mnt", "mount_namespace"}, {"pid", "pid_namespace"}, {"net", "network_namespace"},
	{"ipc", "ipc_namespace"}, {"uts", "uts_namespace"}, {"cgroup", layerCgroupNS},
}

// seen is what was learned about a run before its gate was opened.
type seen struct {
	report inside.Report
	// init is the host's pid of the first process in the sandbox's pid
	// namespace; initFD refers to it whatever becomes of the number.
	init       int
	initFD     *os.File
	applied    []string
	downgrades []string
	started    bool
}

func (s *seen) close() {
	if s.initFD != nil {
		s.initFD.Close()
	}
}

// requested lists the layers of every run. What a machine lacks is taken off
// the list of what must be proved only by an entry in downgrades.
func requested() []string {
	var list []string
	for _, n := range namespaceLayers {
		list = append(list, n.layer)
	}
	return append(list, layerUID, layerCaps, layerNNP, layerSeccomp, layerLandlock, layerGroup, layerRlimits)
}

// judge compares the read-back with what was asked for, and returns the layers
// that are neither proved nor known to be missing on this machine.
func (j *job) judge() (unproved []string) {
	s := &j.seen
	s.applied = j.proved()
	if j.runner.landlock == 0 {
		s.downgrades = append(s.downgrades, layerLandlock+": the kernel has no Landlock of ABI 2 or later")
	}
	if j.runner.ladder.level == levelRlimit {
		s.downgrades = append(s.downgrades, layerGroup+": no control group with memory and pids can be made; limits hold per process")
	}
	if !slices.Contains(s.applied, layerCgroupNS) {
		s.downgrades = append(s.downgrades, layerCgroupNS+": bubblewrap could not make one")
	}
	for _, layer := range requested() {
		excused := slices.ContainsFunc(s.downgrades, func(d string) bool { return strings.HasPrefix(d, layer+":") })
		if !slices.Contains(s.applied, layer) && !excused {
			unproved = append(unproved, layer)
		}
	}
	return unproved
}

// proved lists the layers that the read-back shows.
func (j *job) proved() []string {
	s, r := &j.seen, &j.seen.report
	var list []string
	for _, n := range namespaceLayers {
		if inode := r.Namespaces[n.kind]; inode != 0 && inode != j.runner.own[n.kind] {
			list = append(list, n.layer)
		}
	}
	add := func(ok bool, layer string) {
		if ok {
			list = append(list, layer)
		}
	}
	add(r.UID == insideID && r.GID == insideID && j.runsAs(s.init), layerUID)
	add(empty(r.CapEff) && empty(r.CapBnd) && empty(r.CapPrm) && empty(r.CapInh) && empty(r.CapAmb), layerCaps)
	add(r.NoNewPrivs, layerNNP)
	add(r.Seccomp == 2, layerSeccomp) // SECCOMP_MODE_FILTER
	add(r.LandlockABI > 0, layerLandlock)
	add(j.runner.ladder.level != levelRlimit && j.group.holds(s.init), layerGroup)
	add(j.limitsHold(), layerRlimits)
	return list
}

// empty reports whether a mask of capabilities, in hexadecimal, is zero.
func empty(mask string) bool {
	return mask != "" && strings.Trim(mask, "0") == ""
}

// runsAs reports whether a process belongs to the user that sandboxes run as,
// as the host sees it.
func (j *job) runsAs(pid int) bool {
	want := os.Geteuid()
	if j.runner.viewer != nil {
		want = j.runner.cfg.UID
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || want == 0 {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			return strings.Join(strings.Fields(ids), " ") == fmt.Sprintf("%d %d %d %d", want, want, want, want)
		}
	}
	return false
}

func (j *job) limitsHold() bool {
	limits := j.rlimits()
	for _, l := range limits {
		if got, ok := j.seen.report.Rlimits[l.Name]; !ok || got != l.Soft {
			return false
		}
	}
	return len(limits) > 0
}

// isolation is the attested form of the read-back.
func (j *job) isolation() tool.Isolation {
	r := j.seen.report
	i := tool.Isolation{
		Namespaces: r.Namespaces, UID: r.UID, GID: r.GID,
		CapEff: r.CapEff, CapBnd: r.CapBnd, CapPrm: r.CapPrm,
		NoNewPrivs: r.NoNewPrivs, SeccompMode: r.Seccomp, LandlockABI: r.LandlockABI,
		LimitsBy: j.runner.ladder.level, Rlimits: r.Rlimits,
		HelperSHA: j.runner.helperSHA, ArgumentsSHA: j.argumentsSHA,
	}
	if r.Seccomp == 2 {
		i.SeccompSHA = j.runner.filterSHA
	}
	if slices.Contains(j.seen.applied, layerGroup) {
		i.Cgroup = j.group.name
	}
	return i
}
