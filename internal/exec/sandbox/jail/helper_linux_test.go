package jail

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail/jailtest"
	"palyra/internal/exec/sandbox/seccomp"
)

// helperRun is a palyra-init that was started like in a run, but without any sandbox.
type helperRun struct {
	t       *testing.T
	control *os.File
	process *os.Process
	files   callFiles
}

func startHelper(t *testing.T, m *Machine, stage string, spec *os.File) *helperRun {
	t.Helper()
	return startHelperAs(t, m, stage, spec, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
}

func startHelperAs(t *testing.T, m *Machine, stage string, spec *os.File, attr *syscall.SysProcAttr) *helperRun {
	t.Helper()
	mine, theirs, err := controlPair()
	must.Do(t, err)
	defer theirs.Close()
	files := must.Get(newCallFiles())(t)
	t.Cleanup(files.close)
	// The kernel kills the helper when the thread that started it ends (PDEATHSIG).
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	filter := must.Get(m.filters.with(seccomp.Grants{}))(t)
	p := must.Get(os.StartProcess(SelfPath(inside.HelperFD), []string{helperName, stage}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Sys: attr, Files: []*os.File{
			nil, nil, nil, theirs, spec, m.files.helper.File,
			files[inside.OrderFD], files[inside.StdinFD], files[inside.BytesFD], files[inside.SecretsFD], filter.plain.File, filter.watched.File,
		},
	}))(t)
	return &helperRun{t, mine, p, files}
}

// order sends the helper its order.
func (h *helperRun) order(order inside.Order) {
	h.t.Helper()
	must.Do(h.t, h.files.fill(inside.OrderFD, inside.Encode(&order)))
	must.Do(h.t, send(h.control, inside.Ordered))
}

// closeInput closes the sending side, which makes a waiting helper end with an error.
func (h *helperRun) closeInput() {
	h.t.Helper()
	conn, err := h.control.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	must.Do(h.t, err)
}

// end waits for the helper and returns its exit code.
func (h *helperRun) end() int {
	h.t.Helper()
	h.control.Close() // ends a waiting helper
	state := must.Get(h.process.Wait())(h.t)
	return state.ExitCode()
}

func specFile(t *testing.T, spec inside.Spec) *os.File {
	t.Helper()
	f := must.Get(DataFile("spec", inside.Encode(&spec)))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// The helper runs no program if its input is invalid, is not sealed, or comes from a dead
// daemon.
func TestHelperRefusesSpecs(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	unsealed := must.Get(os.CreateTemp(t.TempDir(), "spec"))(t)
	defer unsealed.Close()
	here := inside.Inner{Dir: "/", Workspace: identityOf(t, "/"), NoNewPrivs: true}
	fine := inside.Encode(&inside.Spec{Inner: here})
	hosts, unknown := here, here
	hosts.UserLimits = &inside.UserLimits{Outside: m.host.own["user"], Limits: map[string]uint64{"max_inotify_instances": 1}}
	unknown.UserLimits = &inside.UserLimits{Limits: hosts.UserLimits.Limits}
	lock := here
	lock.Landlock = &inside.Landlock{ABI: 2, Rules: []inside.Rule{{Path: "/", Access: "all"}}}
	for name, c := range map[string]struct {
		stage string
		spec  *os.File
		want  string
	}{
		"dead daemon":     {inside.StageOuter, specFile(t, inside.Spec{Outer: inside.Outer{Parent: 1, Exec: "/usr/bin/true", Argv: []string{"true"}}}), "checking that the daemon lives"},
		"unsealed spec":   {inside.StageOuter, unsealed, "checking the seals"},
		"can be written":  {inside.StageInner, sealedBut(t, unix.F_SEAL_WRITE, fine), "checking the seals"},
		"can be cut":      {inside.StageInner, sealedBut(t, unix.F_SEAL_SHRINK, fine), "checking the seals"},
		"can grow":        {inside.StageInner, sealedBut(t, unix.F_SEAL_GROW, fine), "checking the seals"},
		"sealed":          {inside.StageInner, sealedBut(t, 0, fine), "waiting for the order"}, // control
		"host's users":    {inside.StageInner, specFile(t, inside.Spec{Inner: hosts}), "the user namespace is the host's"},
		"unknown users":   {inside.StageInner, specFile(t, inside.Spec{Inner: unknown}), "the user namespace is the host's"},
		"unknown stage":   {"other", specFile(t, inside.Spec{}), "reading the stage"},
		"bad landlock":    {inside.StageInner, specFile(t, inside.Spec{Inner: lock}), "granting /"},
		"other workspace": {inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: "/", Workspace: identityOf(t, "/usr")}}), "the workspace changed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHelper(t, m, c.stage, c.spec)
			h.closeInput()
			_, _, err := receive(h.control, 1)
			if code := h.end(); code != 125 || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit code %d, %v, want %q", code, err, c.want)
			}
		})
	}
}

// startListening starts a helper that must open listeners. The helper has no privileges over
// this network namespace, because an error would disconnect the network.
func startListening(t *testing.T, m *Machine, outside uint64, ports ...uint16) *helperRun {
	t.Helper()
	attr := syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if m.Root() {
		attr.Credential = &syscall.Credential{Uid: jailtest.User, Gid: jailtest.User}
	}
	spec := inside.Spec{Inner: inside.Inner{Dir: "/", Network: &inside.Network{Outside: outside, Ports: ports}}}
	return startHelperAs(t, m, inside.StageInner, specFile(t, spec), &attr)
}

// The helper opens no listener in the host's network, and no listener that a grant could not
// request.
func TestHelperRefusesNetworks(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	const other = 1 // no namespace has this number
	for name, c := range map[string]struct {
		outside uint64
		ports   []uint16
		want    string
	}{
		"host's network":  {m.host.own["net"], []uint16{443}, "the network is the host's"},
		"unknown network": {0, []uint16{443}, "the network is the host's"},
		"a port twice":    {other, []uint16{443, 443}, "invalid argument"},
		"no power":        {other, []uint16{443}, "operation not permitted"}, // control
	} {
		t.Run(name, func(t *testing.T) {
			h := startListening(t, m, c.outside, c.ports...)
			_, fds, err := receive(h.control, inside.MaxListeners)
			if code := h.end(); code != 125 || fds != nil || reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit code %d, %v, want %q", code, err, c.want)
			}
		})
	}
}

func TestHelperRefusesOrders(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	good := inside.Order{Exec: "/usr/bin/true", File: stateOf(t, "/usr/bin/true"), Argv: []string{"true"}, Cwd: "/"}
	unsealed := func(h *helperRun) { must.Do(t, send(h.control, inside.Ordered)) }
	other := func(h *helperRun) { must.Do(t, send(h.control, inside.Go)) }
	edited := func(edit func(*inside.Order)) func(*helperRun) {
		return func(h *helperRun) {
			o := good
			edit(&o)
			h.order(o)
		}
	}
	broken := *m
	bad := file{File: must.Get(DataFile("filter", []byte{1, 2, 3}))(t)}
	defer bad.Close()
	// The helper uses the filter without a listener if it cannot install the other.
	broken.filters = &filters{made: map[seccomp.Grants]*filter{{}: {plain: bad, watched: bad}}}
	for name, c := range map[string]struct {
		order func(*helperRun)
		want  reason.Code
		says  string
	}{
		"unsealed order":  {unsealed, reason.SandboxUnavailable, "checking the seals"},
		"no order":        {other, reason.SandboxUnavailable, "waiting for the order"},
		"another program": {edited(func(o *inside.Order) { o.File.Ino++ }), reason.BindingMismatch, "the program changed"},
		"another device":  {edited(func(o *inside.Order) { o.File.Dev++ }), reason.BindingMismatch, "the program changed"},
		"another size":    {edited(func(o *inside.Order) { o.File.Size++ }), reason.BindingMismatch, "the program changed"},
		"written since":   {edited(func(o *inside.Order) { o.File.Mtime-- }), reason.BindingMismatch, "the program changed"},
		"changed since":   {edited(func(o *inside.Order) { o.File.Ctime-- }), reason.BindingMismatch, "the program changed"},
		"no program":      {edited(func(o *inside.Order) { o.Exec = "/nonexistent" }), reason.SpawnFailed, "not visible inside"},
		"no directory":    {edited(func(o *inside.Order) { o.Cwd = "/nonexistent" }), reason.WorkspaceScope, "working directory"},
		"bad filter":      {edited(func(o *inside.Order) { o.Filter = true }), reason.SandboxUnavailable, "installing the system call filter"},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHelper(t, &broken, inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: "/", NoNewPrivs: true}}))
			c.order(h)
			_, _, err := receive(h.control, 1)
			if code := h.end(); code != 125 || reason.Of(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit code %d, %v, want %q", code, err, c.says)
			}
		})
	}
	h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: "/", NoNewPrivs: true}}))
	defer h.end()
	h.order(good)
	if _, _, err := receive(h.control, 1); err != nil { // control
		t.Errorf("the good order: %v", err)
	}
}

// The reports of a helper arrive even if it ends before it has read its messages.
func TestLastReportArrives(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	h := startListening(t, m, 0, 443)
	if err := send(h.control, inside.Ordered); err != nil && !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
	must.Get(h.process.Wait())(t)
	defer h.control.Close()
	if _, _, err := receive(h.control, 1); err == nil || !strings.Contains(err.Error(), "the network is the host's") {
		t.Errorf("got %v", err)
	}
}

// The report contains no layers that were not requested: the helper measures and does not
// repeat its input.
func TestReportMeasuresTheLayers(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: "/"}}))
	order := inside.Order{Exec: "/usr/bin/true", File: identityOf(t, "/usr/bin/true"), Argv: []string{"true"}, Cwd: "/"}
	h.order(order)
	report, _, err := receive(h.control, 1)
	must.Do(t, err)
	if report.NoNewPrivs || report.Seccomp != 0 || report.LandlockABI != 0 || report.Overlay || report.Watched || report.Namespaces["net"] != m.host.own["net"] {
		t.Errorf("read back %+v", report)
	}
	if os.Geteuid() == 0 && Empty(report.CapEff) {
		t.Error("root without layers reads back no capability")
	}
	e := &evidence{machine: m, plan: &Plan{ID: InsideID, User: User{1, 1}, Root: []string{"usr"}}, report: report, init: h.process.Pid}
	for layer, proof := range proofs {
		if layer != LayerGroup && layer != LayerDescriptors && layer != LayerEnvironment && proof(e) {
			t.Errorf("%s is proved without it", layer)
		}
	}
	// A wrong go-ahead message is refused.
	must.Do(t, send(h.control, "on"))
	if _, _, err := receive(h.control, 1); err == nil || errors.Is(err, errNoReport) {
		t.Errorf("a wrong word: %v", err)
	}
	if code := h.end(); code != 125 {
		t.Errorf("exit code %d", code)
	}
}

// Landlock is proved by its effect, not by the request. The helper refuses on a kernel without
// it.
func TestLandlockIsProved(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	has, abi, refusal := m.Landlock() > 0, max(m.Landlock(), 2), "proving Landlock"
	if !has {
		refusal = "creating the Landlock ruleset"
	}
	for access, proved := range map[inside.Access]bool{inside.Full: false, inside.Execute: has} {
		i := inside.Inner{Dir: "/", NoNewPrivs: true, Landlock: &inside.Landlock{ABI: abi, Rules: []inside.Rule{{Path: "/", Access: access}}}}
		h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: i}))
		h.order(inside.Order{Self: true, Argv: []string{helperName}, Cwd: "/"})
		report, _, err := receive(h.control, 1)
		if h.end(); (err == nil) != proved || (report.LandlockABI == abi) != proved || !proved && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s on everything: ABI %d, %v", access, report.LandlockABI, err)
		}
	}
}

// Any requested layer that is not proved stops the run.
func TestJudge(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	for layer := range proofs {
		e := &evidence{machine: m, plan: &Plan{Requested: []string{layer}, ID: InsideID, User: User{1, 1}, Root: []string{"usr"}}}
		e.init, e.report.Strays, e.report.Environ = 1, 1, true
		if layer == LayerGroup {
			continue // requires a group; TestRequiredLayers of package bubblewrap
		}
		if layer == LayerLandlock && m.Landlock() == 0 {
			continue
		}
		if err := e.judge(nil); reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), layer) {
			t.Errorf("%s: %v", layer, err)
		}
		if len(e.applied) > 0 {
			t.Errorf("%s: applied %v", layer, e.applied)
		}
		e.plan.Excused = map[string]string{layer: "the host has none"}
		if err := e.judge(nil); err != nil || len(e.downgrades) != 1 {
			t.Errorf("%s, excused: %v, downgrades %v", layer, err, e.downgrades)
		}
		if err := e.judge([]string{layer}); reason.Of(err) != reason.SandboxUnavailable {
			t.Errorf("%s, excused but required: %v", layer, err)
		}
	}
	e := &evidence{machine: m, plan: &Plan{Requested: []string{LayerNNP}}}
	e.report.NoNewPrivs = true
	if err := e.judge([]string{LayerNNP}); err != nil { // control
		t.Error(err)
	}
}

// A limit on processes is set only if it counts the run's processes alone.
func TestLimitOfProcesses(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	for _, c := range []struct {
		rung  sandbox.Isolation
		users *users
		want  bool
	}{{sandbox.Full, nil, true}, {sandbox.UserNamespaces, nil, true}, {sandbox.Landlocked, &users{}, true}, {sandbox.Landlocked, nil, false}} {
		m.users = c.users
		list := m.rlimits(&Plan{Rung: c.rung}, sandbox.Limits{}.OrDefault())
		if got := slices.ContainsFunc(list, func(l inside.Rlimit) bool { return l.Name == "nproc" }); got != c.want {
			t.Errorf("%s, daemon root %t: limited %t", c.rung, c.users != nil, got)
		}
	}
}

// bubblewrap installs its own filter, which does not prove the filter that is installed last.
func TestOuterFilterProvesNothing(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	e := &evidence{machine: m, plan: &Plan{Filters: 1}, report: inside.Report{Seccomp: modeFilter, Filters: m.host.filters + 1}}
	if e.filtered() {
		t.Error("the outer filter alone proves the inner one")
	}
	e.report.Filters++
	if !e.filtered() { // control
		t.Error("both filters prove nothing")
	}
}

// The attested filter is the installed one.
func TestFilterIsAttested(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	f := must.Get(m.filters.with(seccomp.Grants{}))(t)
	for watched, want := range map[bool]string{true: f.watched.sha, false: f.plain.sha} {
		e := &evidence{machine: m, plan: &Plan{}, filter: f, applied: []string{LayerSeccomp}, report: inside.Report{Watched: watched}}
		if got := e.isolation(false, "").SeccompSHA; got != want {
			t.Errorf("watched %t: %s, want %s", watched, got, want)
		}
		e.applied = nil
		if got := e.isolation(false, "").SeccompSHA; got != "" {
			t.Errorf("not proved: %s", got)
		}
	}
	if f.watched.sha == f.plain.sha { // control
		t.Error("there is one filter")
	}
	granted := must.Get(m.filters.with(seccomp.Grants{Tracing: true}))(t)
	if again := must.Get(m.filters.with(seccomp.Grants{}))(t); granted.plain.sha == f.plain.sha || again != f {
		t.Error("a filter with other grants is the same, or one with the same is another")
	}
}

// A copy is proved only if both sides have the same overlay.
func TestCopyIsProved(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	dir := t.TempDir()
	p := &Plan{Workspace: &Directory{File: nil}}
	stage := m.NewStage(p)
	must.Do(t, stage.newLayer(sandbox.Spec{WorkspaceRoot: realPath(t, dir)}, realPath(t, t.TempDir())))
	defer func() {
		must.Check(t, p.Layer.Close())
	}()
	root := inside.Identity{Dev: 7, Ino: 2}
	for name, edit := range map[string]func(*evidence){
		"no overlay":      func(e *evidence) { e.report.Overlay = false },
		"another one":     func(e *evidence) { e.report.Workspace.Ino++ },
		"another device":  func(e *evidence) { e.report.Workspace.Dev++ },
		"nothing mounted": func(e *evidence) { e.mounted = nil },
		"no layer":        func(e *evidence) { e.plan = &Plan{} }, // the host's own overlay
	} {
		e := &evidence{machine: m, plan: p, mounted: &root, report: inside.Report{Overlay: true, Workspace: root}}
		if !e.copied() { // control
			t.Fatal("the same overlay is not proved")
		}
		edit(e)
		if e.copied() {
			t.Errorf("%s: proved", name)
		}
	}
}
