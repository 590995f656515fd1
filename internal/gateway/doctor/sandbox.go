package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"palyra/internal/core/config"
	"palyra/internal/core/text"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/toolchain"
)

// sandboxes examines the sandbox of programs.
type sandboxes struct {
	Config
	// running is true when a daemon holds the state directory.
	running bool
	// chosen is the sandbox found by the check "sandbox", for the checks of its layers.
	chosen sandbox.Choice
}

// examine examines the sandbox as a whole, its components, and each layer separately.
func (s *sandboxes) examine(ctx context.Context) []Check {
	exams := []Check{timed(ctx, "sandbox", s.open)}
	if s.chosen.Backend == nil {
		return exams
	}
	exams = append(exams,
		timed(ctx, "sandbox: bubblewrap", func(context.Context) finding { return bubblewrapFinding(s.chosen.Status) }),
		timed(ctx, "sandbox: user namespaces", func(context.Context) finding { return userNamespaces(s.chosen) }),
		timed(ctx, "sandbox: room", func(context.Context) finding { return roomFinding(s.chosen.Status) }),
		timed(ctx, "sandbox: control groups", s.groups),
		timed(ctx, "sandbox: toolchains", func(context.Context) finding {
			return toolchains(toolchain.Find(toolchain.For(s.Settings, s.chosen.Status.Tier)))
		}),
		timed(ctx, "sandbox: WebAssembly", s.guests),
		timed(ctx, "sandbox: egress", func(context.Context) finding { return egressFinding(s.Settings.ProcessRunner, s.chosen.Status) }),
	)
	if s.chosen.Status.Available {
		for _, e := range s.chosen.Backend.Examine(ctx) {
			exams = append(exams, layerCheck(e, s.Settings.ProcessRunner.RequiredLayers))
		}
	}
	if err := s.chosen.Backend.Close(); err != nil {
		exams = append(exams, timed(ctx, "sandbox: end", func(context.Context) finding { return broken(fmt.Errorf("closing the sandbox: %w", err)) }))
	}
	return exams
}

// open opens the sandbox as palyrad would, runs a program and reads its
// isolation back.
func (s *sandboxes) open(ctx context.Context) finding {
	if !s.Settings.ProcessRunner.Enabled {
		return skipped("process_runner.enabled is false")
	}
	at, remove, err := scratch(s.Settings.StateDir)
	if err != nil {
		return broken(err)
	}
	s.chosen, err = sandbox.Choose(ctx, s.Sandboxes(at), s.Lowest)
	if err != nil {
		return broken(errors.Join(err, remove()))
	}
	s.chosen.Backend = scratched{s.chosen.Backend, remove}
	return sandboxFinding(s.chosen, s.Settings.ProcessRunner.RequiredLayers)
}

// guests starts the worker of WebAssembly guests. `make build` builds the worker only if gcc is
// installed. A missing worker is therefore a failure only if the settings require it.
func (s *sandboxes) guests(ctx context.Context) finding {
	wasm := s.Settings.WASM
	if !wasm.Enabled {
		return skipped("wasm_runtime.enabled is false")
	}
	if s.chosen.Status.Tier != sandbox.TierC || !s.chosen.Status.Available {
		return skipped("WebAssembly guests need Tier C, which is not available")
	}
	if _, err := os.Stat(s.Worker()); err != nil && wasm.Worker == "" && !wasm.AllowInlineModules {
		return skipped(s.Worker() + ", which runs WebAssembly guests, does not exist; `make build` builds it if gcc is installed")
	}
	dir, err := os.MkdirTemp("", "palyrad-doctor-wasm-")
	if err != nil {
		return broken(err)
	}
	engine, err := s.Guests(ctx, s.chosen.Backend, dir)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return broken(err)
	}
	return fine("guests run in a worker in a sandbox (" + engine + ")")
}

// scratched is a backend whose directories are removed when it is closed.
type scratched struct {
	sandbox.Backend
	remove func() error
}

func (s scratched) Close() error { return errors.Join(s.Backend.Close(), s.remove()) }

// scratch creates directories for the output of the probes. They are in the directory of
// palyrad's own runs, so that the file system is the same. If palyrad has not created that
// directory yet, they are in the system's temporary directory.
func scratch(stateDir string) (places.Places, func() error, error) {
	base := places.LayersDir(stateDir)
	if _, err := os.Stat(base); err != nil {
		base = os.TempDir()
	}
	return places.Temporary(base)
}

func sandboxFinding(b sandbox.Choice, required []string) finding {
	st := b.Status
	if !st.Available {
		return finding{Failed, st.Problem, st.Remedy}
	}
	detail := fmt.Sprintf("Tier %s (%s) by %s, limits by %s; read back from inside: %s",
		strings.ToUpper(string(st.Tier)), st.Rung, st.Backend, st.Limits, strings.Join(st.Layers, ", "))
	missing := st.Lacking(st.Requested)
	lacking := st.Lacking(required)
	switch {
	case len(lacking) > 0:
		return finding{Failed, detail + "; process_runner.required_layers contains inactive layers: " + strings.Join(lacking, ", "),
			"Remove the layers from process_runner.required_layers, or install their requirements, which docs/sandbox.md lists."}
	case b.Lowered() != "":
		return doubtful(detail+"; "+b.Lowered(), "Install the requirements of Tier C, which docs/sandbox.md lists, or accept the lower rung: policies receive it as context.sandbox.rung.")
	case len(missing) > 0:
		return doubtful(detail+"; not applied: "+strings.Join(missing, ", "), "A newer kernel or a delegated control group may enable these layers; docs/sandbox.md describes each layer.")
	}
	return fine(detail)
}

// MoreRoom is the remedy if programs at their limits do not fit in the resources left by palyrad.
const MoreRoom = "Raise TasksMax or MemoryMax of palyrad's service, or lower process_runner.max_processes, memory_limit_bytes or max_concurrent; docs/operations.md has the amounts."

// roomFinding reports whether programs at their limits fit in the resources left by palyrad, and
// the limiting factor.
func roomFinding(st sandbox.Status) finding {
	switch {
	case !st.Available:
		return skipped("no sandbox is available")
	case st.Tight != "":
		return doubtful(st.Tight, MoreRoom)
	case st.AtOnce > 0:
		return fine(fmt.Sprintf("%s can run at once in addition to palyrad, each with its share; limits by %s", text.Plural(st.AtOnce, "program"), st.Limits))
	}
	return fine("programs at their limits fit in addition to palyrad; limits by " + st.Limits)
}

// groups reports whether control groups limit programs.
func (s *sandboxes) groups(ctx context.Context) finding {
	if !s.chosen.Status.Available || !limitsVary(s.chosen.Status) {
		return groupsFinding(s.chosen.Status, "", nil)
	}
	how, err := s.Groups(ctx)
	f := groupsFinding(s.chosen.Status, how, err)
	if s.running {
		f.detail += "; `palyra status` shows the sandbox of the running palyrad"
	}
	return f
}

// The levels of limits on Linux, the best first; other systems have no control groups.
const cgroupV2, cgroupV1, rlimit = "cgroup_v2", "cgroup_v1", "rlimit"

// limitsVary reports whether limits may be better in the control group to which palyrad moves at
// its start.
func limitsVary(st sandbox.Status) bool {
	return st.Rung != sandbox.Seatbelt && (st.Limits == cgroupV1 || st.Limits == rlimit)
}

// groupsFinding reports the mechanism that limits programs in the control group of the doctor.
// It also reports the mechanism for a palyrad started there, because palyrad moves to another
// group and the doctor does not.
func groupsFinding(st sandbox.Status, how string, err error) finding {
	switch {
	case !st.Available:
		return skipped("no sandbox is available")
	case st.Limits == cgroupV2:
		return fine("limits by " + cgroupV2 + ": a control group is delegated to this process")
	case !limitsVary(st):
		return skipped("not available on this system; limits by " + st.Limits)
	case how != "" && err == nil:
		return fine(fmt.Sprintf("limits by %s in this process; a palyrad started here would use %s: %s", st.Limits, cgroupV2, how))
	case st.Limits == cgroupV1:
		return fine("limits by " + cgroupV1)
	}
	why := "the control group of this process has no writable controllers for memory and pids"
	if err != nil {
		why = err.Error()
	}
	return doubtful(fmt.Sprintf("limits by %s, which apply to each process separately; palyrad adds up the memory of a program's processes and stops the program above its limit: %s", rlimit, why),
		"Run palyrad as a systemd unit with Delegate=yes; docs/operations.md has more.")
}

// egressFinding reports the hosts that programs may reach, and whether this machine can enforce
// them.
func egressFinding(p config.ProcessRunner, st sandbox.Status) finding {
	rules := slices.Concat(p.AllowedEgressHosts, p.AllowedDNSSuffixes)
	switch {
	case !st.Available:
		return skipped("no sandbox is available")
	case p.EgressEnforcementMode != config.EgressStrict:
		return doubtful("process_runner.egress_enforcement_mode is "+p.EgressEnforcementMode+": running programs are not restricted to hosts", "Set it to \"strict\" and list the hosts in process_runner.allowed_egress_hosts.")
	case len(rules) == 0:
		return fine("strict; no hosts are allowed, so that programs run offline")
	case Unconfined(p, st):
		return finding{Failed, fmt.Sprintf("hosts are allowed, but the rung %s has no network namespace, so programs cannot be restricted to them; calls that need hosts are refused", st.Rung),
			"Install the requirements of Tier C or of the rung user_namespaces, which docs/sandbox.md lists, or remove the hosts from the configuration."}
	}
	return fine(fmt.Sprintf("strict; programs reach %s and nothing else", strings.Join(rules, ", ")))
}

// mostNames limits the number of duplicate names listed.
const mostNames = 8

// toolchains reports the programs found outside the system directories, the duplicate names, and
// the omitted directories.
func toolchains(found toolchain.Found) finding {
	parts := []string{"only programs in the system directories"}
	if len(found.Toolchains) > 0 {
		var bins []string
		for _, t := range found.Toolchains {
			bins = append(bins, t.Bins...)
		}
		parts = []string{"after the system directories, programs of " + strings.Join(bins, ", ")}
	}
	if twice := foundTwice(found.Toolchains); len(twice) > 0 {
		more := ""
		if len(twice) > mostNames {
			more = fmt.Sprintf(" and %d more", len(twice)-mostNames)
		}
		parts = append(parts, "found more than once (the first one runs): "+strings.Join(twice[:min(len(twice), mostNames)], ", ")+more)
	}
	configured := false
	for _, l := range found.Left {
		parts, configured = append(parts, l.Dir+" is omitted: it "+l.Why), configured || l.Asked
	}
	detail := strings.Join(parts, "; ")
	if configured {
		return doubtful(detail, "Correct these directories, or set others in process_runner.toolchains; docs/sandbox.md lists the requirements.")
	}
	return fine(detail)
}

// foundTwice lists programs of toolchains that have namesakes.
func foundTwice(chains []command.Toolchain) []string {
	var list, seen []string
	for _, t := range chains {
		for _, bin := range t.Bins {
			entries, err := os.ReadDir(bin)
			if err != nil {
				continue
			}
			for _, entry := range entries {
				same := command.Namesakes(entry.Name(), command.PathWith(chains), chains)
				if len(same) < 2 || slices.Contains(seen, entry.Name()) {
					continue
				}
				seen = append(seen, entry.Name())
				list = append(list, fmt.Sprintf("%s (%s)", entry.Name(), strings.Join(same, ", ")))
			}
		}
	}
	return list
}

// Unconfined reports whether egress is strict and hosts are allowed, but the sandbox has no network
// namespace: programs could not be restricted to these hosts.
func Unconfined(p config.ProcessRunner, st sandbox.Status) bool {
	return p.EgressEnforcementMode == config.EgressStrict && len(p.AllowedEgressHosts)+len(p.AllowedDNSSuffixes) > 0 &&
		!slices.Contains(st.Layers, sandbox.NetworkNamespace)
}

// layerCheck returns the result of a layer's live probe. Both halves must pass: an operation that
// also fails without the layer proves nothing about the layer.
func layerCheck(e sandbox.Examination, required []string) Check {
	exam := Check{Name: "layer: " + e.Layer, Result: OK, Detail: e.Detail, Remedy: e.Remedy}
	if e.Denied && e.Control {
		return exam
	}
	exam.Result = Warning
	if e.Absent {
		exam.Result = Skipped
	}
	for _, name := range required {
		if name == e.Layer {
			exam.Result = Failed
		}
	}
	switch {
	case e.Problem != "":
		exam.Detail = joined(e.Problem, e.Detail)
	case !e.Denied:
		exam.Result = Failed
		exam.Detail = joined("the forbidden operation succeeded", e.Detail)
	default:
		exam.Detail = joined("the forbidden operation also failed without the layer, so the probe proves nothing", e.Detail)
	}
	return exam
}

func joined(problem, detail string) string {
	if detail == "" {
		return problem
	}
	return problem + ": " + detail
}

// fixedBubblewrap is the first version with the fix of CVE-2026-87766: creating a mount point
// followed a symbolic link out of the new root. Ubuntu's 0.9.0 also has the fix.
const fixedBubblewrap = "0.12.0"

// bubblewrapFinding reports the version, and the effect of its known vulnerability on Palyra.
func bubblewrapFinding(st sandbox.Status) finding {
	version, ok := strings.CutPrefix(st.Backend, "bubblewrap ")
	if !ok {
		return skipped("not used")
	}
	if !older(version, fixedBubblewrap) {
		return fine(version + ", which has the fix of CVE-2026-87766")
	}
	return fine(version + "; CVE-2026-87766 is fixed in " + fixedBubblewrap + " and in Ubuntu's 0.9.0. " +
		"Palyra does not depend on the fix: nothing is created or mounted below /workspace, the one place that programs can prepare")
}

// older reports whether a dotted version number is lower than another.
func older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range b {
		x := part(a, i)
		y := part(b, i)
		if x != y {
			return x < y
		}
	}
	return false
}

func part(parts []string, i int) int {
	n := 0
	if i < len(parts) {
		_, _ = fmt.Sscanf(parts[i], "%d", &n)
	}
	return n
}

// Files of /proc in which a kernel reports restricted user namespaces.
const (
	appArmorRestricts = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	debianAllows      = "/proc/sys/kernel/unprivileged_userns_clone"
	mostNamespaces    = "/proc/sys/user/max_user_namespaces"
)

// appArmorProfile lets palyrad, and its children, create user namespaces where AppArmor denies that
// to unknown programs (Ubuntu 23.10 and later). It restricts nothing: the sandbox confines
// programs.
const appArmorProfile = `abi <abi/4.0>,
include <tunables/global>

profile palyrad /usr/local/bin/palyrad flags=(unconfined) {
  userns,
  include if exists <local/palyrad>
}
`

// profileFor returns the AppArmor profile for palyrad at the path of the program.
func profileFor(program string) string {
	return strings.Replace(appArmorProfile, "/usr/local/bin/palyrad", program, 1)
}

// userNamespaces reports whether the kernel is configured to restrict user namespaces. It
// changes no setting.
func userNamespaces(b sandbox.Choice) finding {
	works := b.Status.Available && b.Status.Rung != sandbox.Landlocked
	switch {
	case setting(appArmorRestricts) == "1" && works:
		return fine("AppArmor restricts them, but allows palyrad to create them")
	case setting(appArmorRestricts) == "1":
		program, err := os.Executable()
		if err != nil {
			program = "/usr/local/bin/palyrad"
		}
		return finding{Failed, "AppArmor prevents palyrad from creating them (kernel.apparmor_restrict_unprivileged_userns is 1)",
			"Write this to /etc/apparmor.d/palyrad, then run `apparmor_parser -r /etc/apparmor.d/palyrad` as root:\n" + profileFor(program)}
	case works:
		return fine("not restricted")
	case setting(debianAllows) == "0":
		return finding{Failed, "kernel.unprivileged_userns_clone is 0", "Set it to 1 with sysctl, as root, or set process_runner.fallback."}
	case setting(mostNamespaces) == "0":
		return finding{Failed, "user.max_user_namespaces is 0", "Raise it with sysctl, as root, or set process_runner.fallback."}
	}
	return doubtful("no known kernel setting forbids them, but the sandbox does not use them", "See the result of the check `sandbox`.")
}

// setting returns a kernel setting, or "" if the kernel does not have it.
func setting(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
