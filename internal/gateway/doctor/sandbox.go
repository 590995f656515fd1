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
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/toolchain"
)

// sandboxes looks at the sandbox as a whole, at what it is made of, and at each
// layer by itself.
func (p *patient) sandboxes(ctx context.Context) []Exam {
	exams := []Exam{timed(ctx, "sandbox", p.sandbox)}
	if p.chosen.Backend == nil {
		return exams
	}
	exams = append(exams,
		timed(ctx, "sandbox: bubblewrap", func(context.Context) finding { return bubblewrapFinding(p.chosen.Status) }),
		timed(ctx, "sandbox: user namespaces", func(context.Context) finding { return userNamespaces(p.chosen) }),
		timed(ctx, "sandbox: room", func(context.Context) finding { return roomFinding(p.chosen.Status) }),
		timed(ctx, "sandbox: control groups", p.groups),
		timed(ctx, "sandbox: toolchains", func(context.Context) finding {
			return toolchains(toolchain.Find(toolchain.For(p.Settings, p.chosen.Status.Tier)))
		}),
		timed(ctx, "sandbox: WebAssembly", p.guests),
		timed(ctx, "sandbox: egress", func(context.Context) finding { return egressFinding(p.Settings.ProcessRunner, p.chosen.Status) }),
	)
	if p.chosen.Status.Available {
		for _, e := range p.chosen.Backend.Examine(ctx) {
			exams = append(exams, layerExam(e, p.Settings.ProcessRunner.RequiredLayers))
		}
	}
	if err := p.chosen.Backend.Close(); err != nil {
		exams = append(exams, timed(ctx, "sandbox: end", func(context.Context) finding { return broken(fmt.Errorf("closing the sandbox: %w", err)) }))
	}
	return exams
}

// sandbox opens the sandbox as palyrad would, runs a program and reads its
// isolation back.
func (p *patient) sandbox(ctx context.Context) finding {
	if !p.Settings.ProcessRunner.Enabled {
		return skipped("process_runner.enabled is false")
	}
	at, remove, err := p.scratch()
	if err != nil {
		return broken(err)
	}
	p.chosen, err = sandbox.Choose(ctx, p.Sandboxes(at), p.Lowest)
	if err != nil {
		return broken(errors.Join(err, remove()))
	}
	p.chosen.Backend = scratched{p.chosen.Backend, remove}
	return sandboxFinding(p.chosen, p.Settings.ProcessRunner.RequiredLayers)
}

// guests starts the worker of WebAssembly guests. It is built where gcc is, so that it is
// missed only where the settings need it.
func (p *patient) guests(ctx context.Context) finding {
	settings := p.Settings.WASM
	if !settings.Enabled {
		return skipped("wasm_runtime.enabled is false")
	}
	if p.chosen.Status.Tier != sandbox.TierC || !p.chosen.Status.Available {
		return skipped("WebAssembly guests need Tier C, which is not there")
	}
	if _, err := os.Stat(p.Worker()); err != nil && settings.Worker == "" && !settings.AllowInlineModules {
		return skipped("there is no " + p.Worker() + ", which runs WebAssembly guests; `make build` builds it where gcc is")
	}
	dir, err := os.MkdirTemp("", "palyrad-doctor-wasm-")
	if err != nil {
		return broken(err)
	}
	engine, err := p.Guests(ctx, p.chosen.Backend, dir)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return broken(err)
	}
	return fine("guests run in a worker in a sandbox (" + engine + ")")
}

// scratched is a backend whose directories go when it is closed.
type scratched struct {
	sandbox.Backend
	remove func() error
}

func (s scratched) Close() error { return errors.Join(s.Backend.Close(), s.remove()) }

// scratch makes directories for what the probes write: in the directory that
// palyrad's own runs use, so that the file system is the same, or in the system's
// temporary directory when palyrad has not made that one yet.
func (p *patient) scratch() (places.Places, func() error, error) {
	base := places.LayersDir(p.Settings.StateDir)
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
		return finding{Failed, detail + "; process_runner.required_layers wants what is not in force: " + strings.Join(lacking, ", "),
			"Take the layers out of process_runner.required_layers, or give the machine what they need; docs/sandbox.md says what that is."}
	case b.Lowered() != "":
		return doubtful(detail+"; "+b.Lowered(), "Give the machine what Tier C needs, or live with the lower rung: policies see it as context.sandbox.rung.")
	case len(missing) > 0:
		return doubtful(detail+"; not applied: "+strings.Join(missing, ", "), "See docs/sandbox.md for what each layer is for; a newer kernel or a delegated control group may bring it.")
	}
	return fine(detail)
}

// MoreRoom is what to do when programs at their limits do not fit beside palyrad.
const MoreRoom = "Raise TasksMax or MemoryMax of palyrad's service, or lower process_runner.max_processes, memory_limit_bytes or max_concurrent; docs/operations.md says how much is needed."

// roomFinding says whether programs at their limits fit beside palyrad, and what
// keeps them from more.
func roomFinding(st sandbox.Status) finding {
	switch {
	case !st.Available:
		return skipped("there is no sandbox")
	case st.Tight != "":
		return doubtful(st.Tight, MoreRoom)
	case st.AtOnce > 0:
		return fine(fmt.Sprintf("there is room for %s at once beside palyrad, each with its part; limits by %s", text.Plural(st.AtOnce, "program"), st.Limits))
	}
	return fine("programs at their limits fit beside palyrad; limits by " + st.Limits)
}

// groups looks for control groups in which programs are limited.
func (p *patient) groups(ctx context.Context) finding {
	if !p.chosen.Status.Available || !limitsVary(p.chosen.Status) {
		return groupsFinding(p.chosen.Status, "", nil)
	}
	how, err := p.Groups(ctx)
	f := groupsFinding(p.chosen.Status, how, err)
	if p.running {
		f.detail += "; `palyra status` says what the palyrad that runs has"
	}
	return f
}

// The levels of limits on Linux, from the best; others have no control groups.
const cgroupV2, cgroupV1, rlimit = "cgroup_v2", "cgroup_v1", "rlimit"

// limitsVary reports whether limits may be better where palyrad moves.
func limitsVary(st sandbox.Status) bool {
	return st.Rung != sandbox.Seatbelt && (st.Limits == cgroupV1 || st.Limits == rlimit)
}

// groupsFinding says by what programs are limited where the doctor runs, and by what
// they would be for a palyrad that is started there: that one moves, and the doctor
// does not.
func groupsFinding(st sandbox.Status, how string, err error) finding {
	switch {
	case !st.Available:
		return skipped("there is no sandbox")
	case st.Limits == cgroupV2:
		return fine("limits by " + cgroupV2 + ": a control group is delegated where this runs")
	case !limitsVary(st):
		return skipped("there are none here; limits by " + st.Limits)
	case how != "" && err == nil:
		return fine(fmt.Sprintf("limits by %s where this runs; a palyrad started here would have %s: %s", st.Limits, cgroupV2, how))
	case st.Limits == cgroupV1:
		return fine("limits by " + cgroupV1)
	}
	why := "the control group where this runs has no controllers for memory and pids that can be written"
	if err != nil {
		why = err.Error()
	}
	return doubtful(fmt.Sprintf("limits by %s, which hold for each process; palyrad adds up the memory of a program and ends it beyond its limit: %s", rlimit, why),
		"Run palyrad as a systemd unit with Delegate=yes; docs/operations.md has more.")
}

// egressFinding says what programs may reach, and whether this machine can hold
// them to it.
func egressFinding(p config.ProcessRunner, st sandbox.Status) finding {
	rules := slices.Concat(p.AllowedEgressHosts, p.AllowedDNSSuffixes)
	switch {
	case !st.Available:
		return skipped("there is no sandbox")
	case p.EgressEnforcementMode != config.EgressStrict:
		return doubtful("process_runner.egress_enforcement_mode is "+p.EgressEnforcementMode+": nothing holds programs to hosts while they run", "Set it to \"strict\" and list the hosts in process_runner.allowed_egress_hosts.")
	case len(rules) == 0:
		return fine("strict; no hosts are allowed, so that programs run offline")
	case Unconfined(p, st):
		return finding{Failed, fmt.Sprintf("hosts are allowed, and the rung %s has no network namespace that would hold programs to them; calls that reach for hosts are refused", st.Rung),
			"Give the machine what Tier C or the rung user_namespaces needs, or take the hosts out."}
	}
	return fine(fmt.Sprintf("strict; programs reach %s and nothing else", strings.Join(rules, ", ")))
}

// mostNames bounds how many names are told that are found twice.
const mostNames = 8

// toolchains says where programs are found beside the system's, which names are found
// twice, and what is left out.
func toolchains(found toolchain.Found) finding {
	parts := []string{"no programs but those of the system"}
	if len(found.Toolchains) > 0 {
		var bins []string
		for _, t := range found.Toolchains {
			bins = append(bins, t.Bins...)
		}
		parts = []string{"after those of the system, programs of " + strings.Join(bins, ", ")}
	}
	if twice := foundTwice(found.Toolchains); len(twice) > 0 {
		more := ""
		if len(twice) > mostNames {
			more = fmt.Sprintf(" and %d more", len(twice)-mostNames)
		}
		parts = append(parts, "found twice, of which the first runs: "+strings.Join(twice[:min(len(twice), mostNames)], ", ")+more)
	}
	asked := false
	for _, l := range found.Left {
		parts, asked = append(parts, l.Dir+" is left out: it "+l.Why), asked || l.Asked
	}
	detail := strings.Join(parts, "; ")
	if asked {
		return doubtful(detail, "Name other directories in process_runner.toolchains, or cure what is wrong with these; docs/sandbox.md says what they must not be.")
	}
	return fine(detail)
}

// foundTwice lists programs of toolchains that have namesakes.
func foundTwice(chains []sandbox.Toolchain) []string {
	var list, seen []string
	for _, t := range chains {
		for _, bin := range t.Bins {
			entries, err := os.ReadDir(bin)
			if err != nil {
				continue
			}
			for _, entry := range entries {
				same := sandbox.Namesakes(entry.Name(), sandbox.PathWith(chains), chains)
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

// Unconfined reports whether egress is strict and hosts are allowed, but the
// sandbox has no network namespace: nothing could hold programs to these hosts.
func Unconfined(p config.ProcessRunner, st sandbox.Status) bool {
	return p.EgressEnforcementMode == config.EgressStrict && len(p.AllowedEgressHosts)+len(p.AllowedDNSSuffixes) > 0 &&
		!slices.Contains(st.Layers, sandbox.NetworkNamespace)
}

// layerExam is what the live probe of a layer showed. Both halves have to be
// right: what fails without the layer, too, proves nothing about the layer.
func layerExam(e sandbox.Examination, required []string) Exam {
	exam := Exam{Name: "layer: " + e.Layer, Result: OK, Detail: e.Detail, Remedy: e.Remedy}
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
		exam.Detail = joined("the forbidden thing happened", e.Detail)
	default:
		exam.Detail = joined("the forbidden thing failed without the layer, too, so this proves nothing", e.Detail)
	}
	return exam
}

func joined(problem, detail string) string {
	if detail == "" {
		return problem
	}
	return problem + ": " + detail
}

// fixedBubblewrap is the first version without CVE-2026-87766, in which making a
// mount point followed a symbolic link out of the new root. Ubuntu mended 0.9.0.
const fixedBubblewrap = "0.12.0"

// bubblewrapFinding names the version and says what its known hole means here.
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

// older compares versions of numbers and dots.
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

// Files of /proc in which a kernel says that user namespaces are restricted.
const (
	appArmorRestricts = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	debianAllows      = "/proc/sys/kernel/unprivileged_userns_clone"
	mostNamespaces    = "/proc/sys/user/max_user_namespaces"
)

// appArmorProfile lets palyrad, and what it starts, make user namespaces where
// AppArmor keeps unknown programs from it (Ubuntu 23.10 and later). It takes
// nothing away: the sandbox is what confines programs.
const appArmorProfile = `abi <abi/4.0>,
include <tunables/global>

profile palyrad /usr/local/bin/palyrad flags=(unconfined) {
  userns,
  include if exists <local/palyrad>
}
`

// profileFor is the profile for palyrad where it is.
func profileFor(program string) string {
	return strings.Replace(appArmorProfile, "/usr/local/bin/palyrad", program, 1)
}

// userNamespaces says whether the kernel is told to restrict them. It changes
// no setting.
func userNamespaces(b sandbox.Choice) finding {
	works := b.Status.Available && b.Status.Rung != sandbox.Landlocked
	switch {
	case setting(appArmorRestricts) == "1" && works:
		return fine("AppArmor restricts them, and lets palyrad make them")
	case setting(appArmorRestricts) == "1":
		program, err := os.Executable()
		if err != nil {
			program = "/usr/local/bin/palyrad"
		}
		return finding{Failed, "AppArmor keeps palyrad from making them (kernel.apparmor_restrict_unprivileged_userns is 1)",
			"Write this to /etc/apparmor.d/palyrad, then run `apparmor_parser -r /etc/apparmor.d/palyrad` as root:\n" + profileFor(program)}
	case works:
		return fine("not restricted")
	case setting(debianAllows) == "0":
		return finding{Failed, "kernel.unprivileged_userns_clone is 0", "Set it to 1 with sysctl, as root, or set process_runner.fallback."}
	case setting(mostNamespaces) == "0":
		return finding{Failed, "user.max_user_namespaces is 0", "Raise it with sysctl, as root, or set process_runner.fallback."}
	}
	return doubtful("no setting of the kernel is known to forbid them, and the sandbox does not use them", "See the check of the sandbox.")
}

// setting reads one of the kernel's, "" when it does not have it.
func setting(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
