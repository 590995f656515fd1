package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/toolchain"
)

// TestLayerChecks: a layer is in force only if the forbidden operation was denied with the
// layer and succeeded without it.
func TestLayerChecks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		e        sandbox.Examination
		required []string
		want     string
		says     string
	}{
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: true, Detail: "mount gave EPERM"}, nil, OK, "mount gave EPERM"},
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: false, Detail: "mount"}, nil, Warning, "proves nothing"},
		{sandbox.Examination{Layer: "seccomp", Denied: false, Control: true, Detail: "mount"}, nil, Failed, "the forbidden operation succeeded: mount"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none", Remedy: "A newer kernel."}, nil, Warning, "the kernel has none"},
		{sandbox.Examination{Layer: "landlock", Problem: "absent on this machine: the kernel has none", Absent: true}, nil, Skipped, "absent on this machine"},
		{sandbox.Examination{Layer: "landlock", Problem: "absent on this machine: the kernel has none", Absent: true}, []string{"landlock"}, Failed, "absent on this machine"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none"}, []string{"landlock"}, Failed, "the kernel has none"},
	} {
		if got := layerCheck(row.e, row.required); got.Result != row.want || !strings.Contains(got.Detail, row.says) || got.Remedy != row.e.Remedy || got.Name != "layer: "+row.e.Layer {
			t.Errorf("%+v gives %+v", row.e, got)
		}
	}
}

func TestBubblewrapFinding(t *testing.T) {
	t.Parallel()
	for backend, want := range map[string]string{
		"bubblewrap 0.8.0": "does not depend on the fix", "bubblewrap 0.11.2": "does not depend on the fix", "bubblewrap 0.12.0": "which has the fix", "bubblewrap 1.0": "which has the fix",
		"seatbelt": "not used",
	} {
		if f := bubblewrapFinding(sandbox.Status{Backend: backend}); !strings.Contains(f.detail, want) {
			t.Errorf("%s: %q, want %q", backend, f.detail, want)
		}
	}
}

// TestDoctorSeesEgress: the doctor reports allowed hosts that no layer would enforce.
func TestDoctorSeesEgress(t *testing.T) {
	t.Parallel()
	held := sandbox.Status{Available: true, Rung: sandbox.Full, Layers: []string{sandbox.NetworkNamespace}}
	open := sandbox.Status{Available: true, Rung: sandbox.Landlocked}
	hosts := func(p *config.ProcessRunner) { p.AllowedEgressHosts = []string{"a.org:443"} }
	for _, row := range []struct {
		change func(*config.ProcessRunner)
		st     sandbox.Status
		result string
		says   string
	}{
		{func(*config.ProcessRunner) {}, held, OK, "run offline"},
		{hosts, held, OK, "programs reach a.org:443 and nothing else"},
		{hosts, open, Failed, "the rung landlock has no network namespace"},
		{func(*config.ProcessRunner) {}, open, OK, "run offline"},
		{func(p *config.ProcessRunner) { p.EgressEnforcementMode = config.EgressUnrestricted }, held, Warning, "running programs are not restricted to hosts"},
		{hosts, sandbox.Status{}, Skipped, "no sandbox"},
	} {
		p := config.Default().ProcessRunner
		row.change(&p)
		if f := egressFinding(p, row.st); f.result != row.result || !strings.Contains(f.detail, row.says) {
			t.Errorf("%+v on %s: %+v", row.says, row.st.Rung, f)
		}
	}
}

// TestAppArmorProfileIsDocumented: the doctor and the document have the same profile.
func TestAppArmorProfileIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/operations.md"))(t)
	if !strings.Contains(string(text), "```\n"+appArmorProfile+"```") {
		t.Error("docs/operations.md has another AppArmor profile than the doctor")
	}
	if got := profileFor("/opt/palyrad"); !strings.Contains(got, "profile palyrad /opt/palyrad flags=(unconfined) {") {
		t.Errorf("the profile is\n%s", got)
	}
}

// TestToolchainsFinding: the finding lists the toolchains that were found, found twice, and
// omitted.
func TestToolchainsFinding(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(one, "tool"), filepath.Join(one, "own"), filepath.Join(two, "tool")} {
		must.Do(t, os.WriteFile(name, nil, 0o755))
	}
	chain := func(name, bin string) command.Toolchain {
		return command.Toolchain{Name: name, Bins: []string{bin}, Dirs: []string{bin}}
	}
	both := []command.Toolchain{chain("a", one), chain("b", two)}
	for _, c := range []struct {
		found  toolchain.Found
		result string
		want   string
	}{
		{toolchain.Found{}, OK, "only programs in the system directories"},
		{toolchain.Found{Toolchains: both[:1]}, OK, "after the system directories, programs of " + one},
		{toolchain.Found{Toolchains: both}, OK, "found more than once (the first one runs): tool ("},
		{toolchain.Found{Left: []toolchain.Left{{Dir: "/x", Why: "holds .npmrc"}}}, OK, "/x is omitted: it holds .npmrc"},
		{toolchain.Found{Left: []toolchain.Left{{Dir: "/x", Why: "holds .npmrc", Asked: true}}}, Warning, "/x is omitted: it holds .npmrc"},
	} {
		got := toolchains(c.found)
		if got.result != c.result || !strings.Contains(got.detail, c.want) || strings.Contains(got.detail, "own (") || strings.Contains(c.want, "after") && strings.Contains(got.detail, "more than once") {
			t.Errorf("%+v: %+v", c.found, got)
		}
	}
}
