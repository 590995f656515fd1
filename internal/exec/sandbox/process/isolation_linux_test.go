package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// rungs are both rungs of this backend.
var rungs = []struct {
	name string
	make func(testing.TB, ...string) *Runner
}{{"user_namespaces", newTestRunner}, {"landlock", newAloneRunner}}

func TestEveryLayerIsProved(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	spec := jailtest.Shell(t, jailtest.Workspace(t), "true")
	spec.Workspace = sandbox.CopyOnWrite
	report := jailtest.Run(t, r, spec)
	want := report.Requested
	if !grouped() {
		want = slices.DeleteFunc(slices.Clone(want), func(layer string) bool { return layer == jail.LayerGroup })
	}
	if !slices.Equal(report.Applied, want) || len(report.Requested)-len(want) != len(report.Downgrades) {
		t.Errorf("applied %v of %v, downgrades %v", report.Applied, report.Requested, report.Downgrades)
	}
	if report.Rung != sandbox.UserNamespaces || report.Tier != sandbox.TierB || sandbox.Level(egress.Strict, report.Requested, report.Applied) != sandbox.LevelStrict {
		t.Errorf("tier %s, rung %s", report.Tier, report.Rung)
	}
	if i := report.Isolation; i.LandlockABI == 0 || i.SeccompSHA == "" || i.HelperSHA == "" || i.Workspace != string(sandbox.CopyOnWrite) || i.Rung != string(report.Rung) {
		t.Errorf("the isolation is %+v", i)
	}
}

// The layers that the lower rung lacks are reported, and its level is none.
func TestLowerLevelReportsMissingLayers(t *testing.T) {
	t.Parallel()
	report := jailtest.Run(t, newAloneRunner(t), jailtest.Shell(t, openWorkspace(t), "true"))
	want := layers()
	if !grouped() {
		want = slices.DeleteFunc(want, func(layer string) bool { return layer == jail.LayerGroup })
	}
	if !slices.Equal(report.Applied, want) {
		t.Errorf("applied %v, want %v", report.Applied, want)
	}
	if len(report.Downgrades) < len(namespaces())+1 || !strings.Contains(strings.Join(report.Downgrades, "\n"), "network_namespace: user namespaces are not available") {
		t.Errorf("the downgrades are %q", report.Downgrades)
	}
	if report.Rung != sandbox.Landlocked || sandbox.Level(egress.Strict, report.Requested, report.Applied) != sandbox.LevelNone {
		t.Errorf("rung %s, level %s", report.Rung, sandbox.Level(egress.Strict, report.Requested, report.Applied))
	}
}

// A requested layer that is not in force prevents the start of the program, whatever the cause.
func TestEachMissingLayerRefuses(t *testing.T) {
	t.Parallel()
	flag := func(bits uintptr) func(*jail.Plan) {
		return func(p *jail.Plan) { p.Attr.Cloneflags &^= bits }
	}
	for _, c := range []struct {
		layer  string
		weaken func(*jail.Plan)
		alone  bool
	}{
		{layer: jail.LayerNetwork, weaken: func(p *jail.Plan) { flag(unix.CLONE_NEWNET)(p); p.Spec.Ground.Loopback = false }},
		{layer: jail.LayerIPC, weaken: flag(unix.CLONE_NEWIPC)},
		{layer: jail.LayerPIDs, weaken: func(p *jail.Plan) {
			flag(unix.CLONE_NEWPID)(p)
			p.Spec.Ground.Proc, p.Spec.Inner.First = false, false
		}},
		{layer: jail.LayerMasks, weaken: func(p *jail.Plan) { p.Spec.Ground.Masks = nil }},
		{layer: jail.LayerCaps, weaken: func(p *jail.Plan) { p.Spec.Inner.DropCapabilities = false }},
		{layer: jail.LayerLandlock, weaken: func(p *jail.Plan) { p.Spec.Inner.Landlock = nil }},
		{layer: jail.LayerEnvironment, weaken: func(p *jail.Plan) { p.Env = []string{"SECRET=1"} }},
		{layer: jail.LayerUID, weaken: func(p *jail.Plan) { p.User.UID++ }},
		{layer: jail.LayerCopy, weaken: func(p *jail.Plan) { p.Spec.Outer.Overlay = nil }},
		{layer: jail.LayerLandlock, weaken: func(p *jail.Plan) { p.Spec.Inner.Landlock = nil }, alone: true},
		{layer: jail.LayerUID, weaken: func(p *jail.Plan) { p.User.UID++ }, alone: true},
		{layer: jail.LayerEnvironment, weaken: func(p *jail.Plan) { p.Env = []string{"SECRET=1"} }, alone: true},
	} {
		name := c.layer
		if c.alone {
			name += " alone"
		}
		t.Run(name, func(t *testing.T) {
			root := openWorkspace(t)
			r := newTestRunner(t)
			spec := jailtest.Shell(t, root, "touch ran")
			spec.Workspace = sandbox.CopyOnWrite
			if c.alone {
				r, spec.Workspace = newAloneRunner(t), sandbox.Direct
			}
			spec.Limits = spec.Limits.OrDefault()
			d := must.Get(r.draft(spec))(t)
			c.weaken(d.plan)
			report, err := d.run(t.Context(), nil)
			must.Check(t, d.clean())
			if reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), c.layer) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(root, "ran")); err == nil || report.Layer != nil {
				t.Error("the program ran")
			}
		})
	}
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		root := jailtest.Workspace(t)
		spec := jailtest.Shell(t, root, "id -u; echo x > made; cat made")
		e := errand{Spec: spec, LayerDir: jailtest.Dir(t), Alone: alone}
		if alone {
			e.Without = []string{jail.LayerGroup} // this user has no control group
		}
		result := asOrdinary(t, e)
		if result.Error != "" || result.Report.ExitCode == nil || *result.Report.ExitCode != 0 || !strings.HasSuffix(string(result.Report.Stdout.Head), "x\n") {
			t.Fatalf("alone %v: %s, %s%s", alone, result.Error, result.Report.Stdout.Head, result.Report.Stderr.Head)
		}
		if !alone && len(result.Report.Applied) < len(result.Report.Requested)-1 {
			t.Errorf("applied %v of %v: %v", result.Report.Applied, result.Report.Requested, result.Report.Downgrades)
		}
		for _, layer := range []string{jail.LayerUID, jail.LayerCaps, jail.LayerLandlock, jail.LayerSeccomp} {
			if !slices.Contains(result.Report.Applied, layer) {
				t.Errorf("alone %v: %s is not proved: %v", alone, layer, result.Report.Applied)
			}
		}
	}
}

func TestEgress(t *testing.T) {
	t.Parallel()
	spec := jailtest.Shell(t, openWorkspace(t), "readlink /proc/self/ns/net")
	spec.Egress = egress.Unrestricted
	own := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	r := newTestRunner(t)
	report := jailtest.Run(t, r, spec)
	if got := strings.TrimSpace(string(report.Stdout.Head)); got != own || slices.Contains(report.Requested, jail.LayerNetwork) {
		t.Errorf("got %s, asked for %v", got, report.Requested)
	}
	if _, err := newAloneRunner(t).Run(t.Context(), spec); reason.Of(err) != reason.EgressDenied {
		t.Errorf("got %v", err)
	}
	spec.Egress = egress.Strict
	if got := jailtest.Output(t, r, spec); strings.TrimSpace(got) == own {
		t.Error("strict egress left the host's network")
	}
	loopback := jailtest.Spec(t, spec.WorkspaceRoot, "python3", "-c",
		"import socket; l=socket.create_server(('127.0.0.1',0)); socket.create_connection(l.getsockname(),2); print('ok')")
	if got := jailtest.Output(t, r, loopback); got != "ok\n" {
		t.Errorf("got %q", got)
	}
}

func TestMasks(t *testing.T) {
	t.Parallel()
	jailtest.Masks(t, newTestRunner(t), newTestRunner(t, jail.LayerMasks))
}

// The report lists denied calls, with the path of the program inside the sandbox.
func TestViolationsAreReported(t *testing.T) {
	t.Parallel()
	report := jailtest.Run(t, newTestRunner(t), jailtest.Shell(t, jailtest.Workspace(t), "unshare -U true; true"))
	if len(report.Violations) == 0 || report.Violations[0].Syscall != "unshare" || report.Violations[0].Executable != "/usr/bin/unshare" || !report.Isolation.Watched {
		t.Errorf("the violations are %+v, watched %v", report.Violations, report.Isolation.Watched)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r, root := newTestRunner(t), jailtest.Workspace(t)
	good := jailtest.Shell(t, root, "true")
	for _, c := range []struct {
		change func(*sandbox.Spec)
		want   reason.Code
	}{
		{func(s *sandbox.Spec) { s.Argv = nil }, reason.InvalidInput},
		{func(s *sandbox.Spec) { s.Env = []string{"LD_PRELOAD=x"} }, reason.InvalidInput},
		{func(s *sandbox.Spec) { s.WorkspaceRoot = root + "/missing" }, reason.WorkspaceScope},
		{func(s *sandbox.Spec) { s.Cwd = "../x" }, reason.WorkspaceScope},
		{func(s *sandbox.Spec) { s.Executable.Path = "/opt/tool" }, reason.ExecutableDenied},
		{func(s *sandbox.Spec) { s.Executable.SHA256 = "sha256:00" }, reason.BindingMismatch},
		{func(s *sandbox.Spec) { s.Network, s.Egress = new(egress.Reach), egress.Preflight }, reason.InvalidInput},
		{func(s *sandbox.Spec) { s.Required = []string{jail.LayerUTS} }, reason.SandboxUnavailable},
	} {
		spec := good
		c.change(&spec)
		if _, err := r.Run(t.Context(), spec); reason.Of(err) != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	off := must.Get(newRunner(Config{}, helperProgram))(t)
	defer off.Close()
	if _, err := off.Run(t.Context(), good); reason.Of(err) != reason.SandboxDisabled {
		t.Errorf("got %v", err)
	}
	if status := off.Probe(t.Context()); !status.Available || status.Rung != sandbox.UserNamespaces || status.Tier != sandbox.TierB {
		t.Errorf("got %+v", status)
	}
	none := must.Get(newRunner(Config{Enabled: true}, nil))(t)
	defer none.Close()
	if _, err := none.Run(t.Context(), good); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("got %v", err)
	}
	if status := none.Probe(t.Context()); status.Available || status.Problem == "" || status.Remedy == "" {
		t.Errorf("got %+v", status)
	}
}

// The lower rung is used without user namespaces only if it is allowed.
func TestLowerLevelMustBeAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lowest sandbox.Isolation
		works  bool
	}{{sandbox.Landlocked, grouped()}, {sandbox.UserNamespaces, false}, {"", false}} {
		r := must.Get(newRunner(Config{Enabled: true, Lowest: c.lowest, Without: []string{jail.LayerUserNS}}, helperProgram))(t)
		status := r.Probe(t.Context())
		must.Check(t, r.Close())
		if status.Available != c.works || c.works && status.Rung != sandbox.Landlocked {
			t.Errorf("%q: %+v", c.lowest, status)
		}
	}
}
