package doctor

import (
	"os"
	"strings"
	"testing"

	"palyra/internal/config"
	"palyra/internal/must"
	"palyra/internal/sandbox"
)

// TestLayerExams: a layer is in force only when the forbidden thing was denied
// with it and happened without it.
func TestLayerExams(t *testing.T) {
	for _, row := range []struct {
		e        sandbox.Examination
		required []string
		want     string
		says     string
	}{
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: true, Detail: "mount gave EPERM"}, nil, OK, "mount gave EPERM"},
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: false, Detail: "mount"}, nil, Warning, "proves nothing"},
		{sandbox.Examination{Layer: "seccomp", Denied: false, Control: true, Detail: "mount"}, nil, Failed, "the forbidden thing happened: mount"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none", Remedy: "A newer kernel."}, nil, Warning, "the kernel has none"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none"}, []string{"landlock"}, Failed, "the kernel has none"},
	} {
		if got := layerExam(row.e, row.required); got.Result != row.want || !strings.Contains(got.Detail, row.says) || got.Remedy != row.e.Remedy || got.Name != "layer: "+row.e.Layer {
			t.Errorf("%+v gives %+v", row.e, got)
		}
	}
}

func TestBubblewrapFinding(t *testing.T) {
	for backend, want := range map[string]string{
		"bubblewrap 0.8.0": "does not depend on the fix", "bubblewrap 0.11.2": "does not depend on the fix", "bubblewrap 0.12.0": "which has the fix", "bubblewrap 1.0": "which has the fix",
		"seatbelt": "not used",
	} {
		if f := bubblewrapFinding(sandbox.Status{Backend: backend}); !strings.Contains(f.detail, want) {
			t.Errorf("%s: %q, want %q", backend, f.detail, want)
		}
	}
}

// TestDoctorSeesEgress: hosts that nothing would hold programs to are found.
func TestDoctorSeesEgress(t *testing.T) {
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
		{func(p *config.ProcessRunner) { p.EgressEnforcementMode = config.EgressUnrestricted }, held, Warning, "nothing holds programs to hosts"},
		{hosts, sandbox.Status{}, Skipped, "no sandbox"},
	} {
		p := config.Default().ProcessRunner
		row.change(&p)
		if f := egressFinding(p, row.st); f.result != row.result || !strings.Contains(f.detail, row.says) {
			t.Errorf("%+v on %s: %+v", row.says, row.st.Rung, f)
		}
	}
}

// TestAppArmorProfileIsDocumented: doctor and document print the same text.
func TestAppArmorProfileIsDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/sandbox.md"))(t)
	if !strings.Contains(string(text), "```\n"+appArmorProfile+"```") {
		t.Error("docs/sandbox.md has another AppArmor profile than the doctor")
	}
	if got := profileFor("/opt/palyrad"); !strings.Contains(got, "profile palyrad /opt/palyrad flags=(unconfined) {") {
		t.Errorf("the profile is\n%s", got)
	}
}
