package process

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/sandbox/jail"
	"palyra/internal/sandbox/origin"
)

// rungs are both rungs of this backend.
var rungs = []struct {
	name string
	make func(testing.TB, ...string) *Runner
}{{"user_namespaces", newTestRunner}, {"landlock", newAloneRunner}}

func TestEveryLayerIsProved(t *testing.T) {
	r := newTestRunner(t)
	spec := shell(t, newWorkspace(t), "true")
	spec.Workspace = sandbox.CopyOnWrite
	report := mustRun(t, r, spec)
	if !slices.Equal(report.Applied, report.Requested) || len(report.Downgrades) > 0 {
		t.Errorf("applied %v of %v, downgrades %v", report.Applied, report.Requested, report.Downgrades)
	}
	if report.Rung != sandbox.UserNamespaces || report.Tier != sandbox.TierB || sandbox.Level(egress.Strict, report.Requested, report.Applied) != sandbox.LevelStrict {
		t.Errorf("tier %s, rung %s", report.Tier, report.Rung)
	}
	if i := report.Isolation; i.LandlockABI == 0 || i.SeccompSHA == "" || i.HelperSHA == "" || i.Workspace != string(sandbox.CopyOnWrite) || i.Rung != string(report.Rung) {
		t.Errorf("the isolation is %+v", i)
	}
}

// What the lower rung lacks is told, and its level is none.
func TestLowerRungIsHonest(t *testing.T) {
	report := mustRun(t, newAloneRunner(t), shell(t, openWorkspace(t), "true"))
	if !slices.Equal(report.Applied, layers()) {
		t.Errorf("applied %v, want %v", report.Applied, layers())
	}
	if len(report.Downgrades) != len(namespaces())+1 || !strings.Contains(strings.Join(report.Downgrades, "\n"), "network_namespace: there are no user namespaces") {
		t.Errorf("the downgrades are %q", report.Downgrades)
	}
	if report.Rung != sandbox.Landlocked || sandbox.Level(egress.Strict, report.Requested, report.Applied) != sandbox.LevelNone {
		t.Errorf("rung %s, level %s", report.Rung, sandbox.Level(egress.Strict, report.Requested, report.Applied))
	}
}

// A layer that was asked for and is not in force keeps the program from
// starting, whatever the reason.
func TestEachMissingLayerRefuses(t *testing.T) {
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
	} {
		name := c.layer
		if c.alone {
			name += " alone"
		}
		t.Run(name, func(t *testing.T) {
			root := openWorkspace(t)
			r := newTestRunner(t)
			spec := shell(t, root, "touch ran")
			spec.Workspace = sandbox.CopyOnWrite
			if c.alone {
				r, spec.Workspace = newAloneRunner(t), sandbox.Direct
			}
			spec.Limits = spec.Limits.OrDefault()
			d, err := r.draft(spec)
			if err != nil {
				t.Fatal(err)
			}
			c.weaken(d.plan)
			report, err := d.run(t.Context(), nil)
			if clean := d.clean(); clean != nil {
				t.Error(clean)
			}
			if reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), c.layer) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(root, "ran")); err == nil || report.Layer != nil {
				t.Error("the program ran")
			}
		})
	}
}

// attack is a program that prints "done" when it gets what it should not. It
// must fail with every layer and succeed with those of open left out.
type attack struct {
	name   string
	python string
	// open are the layers of each rung whose absence lets the attack through.
	open map[string][]string
}

func TestAttacksFailAndSucceedWithoutTheLayer(t *testing.T) {
	host := startHost(t)
	for _, a := range attacks(host) {
		for _, rung := range rungs {
			layers, ok := a.open[rung.name]
			if !ok {
				continue
			}
			t.Run(a.name+"/"+rung.name, func(t *testing.T) {
				spec := specOf(t, openWorkspace(t), "python3", "-c", a.python)
				if report := mustRun(t, rung.make(t), spec); strings.Contains(string(report.Stdout.Head), "done") {
					t.Errorf("the attack succeeded: %s", report.Stdout.Head)
				}
				report := mustRun(t, rung.make(t, layers...), spec)
				if !strings.Contains(string(report.Stdout.Head), "done") {
					t.Errorf("without %v the attack fails, too: %s%s", layers, report.Stdout.Head, report.Stderr.Head)
				}
				if level := sandbox.Level(egress.Strict, report.Requested, report.Applied); level != sandbox.LevelNone {
					t.Errorf("without %v the level is %s", layers, level)
				}
			})
		}
	}
}

// host is what a program must not reach.
type host struct {
	secret, victim string
	port           int
	socket         string
	// shared is the key of a segment of shared memory.
	shared int
}

func startHost(t *testing.T) host {
	t.Helper()
	dir := filepath.Dir(openWorkspace(t))
	h := host{secret: filepath.Join(dir, "secret"), victim: filepath.Join(dir, "victim"), socket: filepath.Join(dir, "socket")}
	writeFile(t, h.secret, "secret", 0o644)
	writeFile(t, h.victim, "whole", 0o666)
	for _, network := range []struct{ kind, address string }{{"tcp", "127.0.0.1:0"}, {"unix", h.socket}} {
		l, err := net.Listen(network.kind, network.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			h.port = a.Port
		}
	}
	if err := os.Chmod(h.socket, 0o777); err != nil {
		t.Fatal(err)
	}
	h.shared = os.Getpid() + 1<<24
	id, err := unix.SysvShmGet(h.shared, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return h
}

func attacks(h host) []attack {
	both := func(layers ...string) map[string][]string {
		return map[string][]string{"user_namespaces": layers, "landlock": layers}
	}
	libc := "import ctypes,os\nc=ctypes.CDLL(None,use_errno=True)\n"
	port := strconv.Itoa(h.port)
	return []attack{
		{"read a file outside", "print(open('" + h.secret + "').read()=='secret' and 'done')", map[string][]string{"landlock": {jail.LayerLandlock}}},
		{"write a file outside", "open('" + h.victim + "','a').write('x'); print('done')", map[string][]string{"landlock": {jail.LayerLandlock}}},
		{"read the configuration", "open('/etc/shells').read(); print('done')", both(jail.LayerLandlock)},
		{"list the root", "import os; os.listdir('/'); print('done')", both(jail.LayerLandlock)},
		{"list the homes", "import os; os.listdir('/home'); print('done')", both(jail.LayerLandlock)},
		{"connect to the host", "import socket; socket.create_connection(('127.0.0.1'," + port + "),2); print('done')",
			map[string][]string{"user_namespaces": {jail.LayerNetwork}, "landlock": {jail.LayerSeccomp, jail.LayerLandlock}}},
		{"udp", "import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('127.0.0.1'," + port + ")); print('done')", map[string][]string{"landlock": {jail.LayerSeccomp}}},
		{"a unix socket", "import socket; socket.socket(socket.AF_UNIX); print('done')", both(jail.LayerSeccomp)},
		{"a user namespace", libc + "print('done' if c.unshare(0x10000000)==0 else ctypes.get_errno())", both(jail.LayerSeccomp)},
		{"the keyring", libc + "print('done' if c.syscall(250,0,-3,1)>0 else ctypes.get_errno())", both(jail.LayerSeccomp)},
		{"shared memory of the host", libc + "print('done' if c.shmget(" + strconv.Itoa(h.shared) + ",1,0o444)>=0 else ctypes.get_errno())",
			map[string][]string{"user_namespaces": {jail.LayerIPC}, "landlock": {jail.LayerSeccomp}}},
		{"the host's processes", "open('/proc/" + strconv.Itoa(os.Getpid()) + "/cmdline').read(); print('done')",
			map[string][]string{"user_namespaces": {jail.LayerPIDs}}},
		{"the command line of the daemon", "open('/proc/" + strconv.Itoa(os.Getpid()) + "/cmdline').read(); print('done')", map[string][]string{"landlock": {jail.LayerLandlock}}},
		{"the kernel's command line", "import os; print('done' if len(open('/proc/cmdline').read())>0 else '')", map[string][]string{"user_namespaces": {jail.LayerMasks}, "landlock": {jail.LayerLandlock}}},
	}
}

// Two walls stand before the host's network on the lower rung, each by itself.
func TestEachWallDeniesTCP(t *testing.T) {
	h := startHost(t)
	script := "import socket; socket.create_connection(('127.0.0.1'," + strconv.Itoa(h.port) + "),2)"
	for layer, want := range map[string]string{jail.LayerSeccomp: "PermissionError", jail.LayerLandlock: "Address family not supported"} {
		report := mustRun(t, newAloneRunner(t, layer), specOf(t, openWorkspace(t), "python3", "-c", script))
		if got := string(report.Stderr.Head); !strings.Contains(got, want) {
			t.Errorf("without %s: %s", layer, got)
		}
	}
}

// The first process stays in the sandbox, and nothing is to be had from it.
func TestFirstProcessIsOutOfReach(t *testing.T) {
	script := `cat /proc/1/task/*/status | grep -c 'CapEff:[[:space:]]0000000000000000'; ls /proc/1/task | wc -l
		for f in environ mem maps; do head -c1 /proc/1/$f > /dev/null 2>&1 && echo $f; done; ls /proc/1/fd > /dev/null 2>&1 && echo fd; true`
	got := strings.Fields(succeeds(t, newTestRunner(t), shell(t, newWorkspace(t), script)))
	if len(got) != 2 || got[0] != got[1] || got[0] == "0" {
		t.Errorf("powerless threads, threads, and what can be read: %v", got)
	}
}

func TestWorkspaceModes(t *testing.T) {
	script := "echo new > made; echo more >> old; cat old"
	for _, c := range []struct {
		mode            sandbox.WorkspaceMode
		reaches, within bool
	}{
		{sandbox.ReadOnly, false, false}, {"", false, false}, {sandbox.Direct, true, true}, {sandbox.CopyOnWrite, false, true},
	} {
		for _, rung := range rungs {
			t.Run(string(c.mode)+"/"+rung.name, func(t *testing.T) {
				root := openWorkspace(t)
				writeFile(t, filepath.Join(root, "old"), "old\n", 0o666)
				spec := shell(t, root, script)
				spec.Workspace = c.mode
				r := rung.make(t)
				if c.mode == sandbox.CopyOnWrite && r.rung == sandbox.Landlocked {
					if _, err := r.Run(t.Context(), spec); reason.Of(err) != reason.SandboxUnavailable {
						t.Errorf("got %v", err)
					}
					return
				}
				report := mustRun(t, r, spec)
				if got := strings.Contains(string(report.Stdout.Head), "more"); got != c.within {
					t.Errorf("inside: %q", report.Stdout.Head)
				}
				text, err := os.ReadFile(filepath.Join(root, "old"))
				_, missing := os.Stat(filepath.Join(root, "made"))
				if err != nil || strings.Contains(string(text), "more") != c.reaches || (missing == nil) != c.reaches {
					t.Errorf("outside: %q, %v, %v", text, err, missing)
				}
				if (report.Layer != nil) != (c.mode == sandbox.CopyOnWrite) {
					t.Errorf("the layer is %v", report.Layer)
				}
			})
		}
	}
}

// The owner's private files are seen through a view, and what a program makes
// is the owner's.
func TestOwnerOfTheWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user owns what it runs; see TestOrdinaryUser")
		return
	}
	root := newWorkspace(t)
	writeFile(t, filepath.Join(root, "private"), "mine", 0o600)
	giveAway(t, root)
	if got := succeeds(t, newTestRunner(t), shell(t, root, "cat private; echo x > made")); got != "mine" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(filepath.Join(root, "made"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != ordinary {
		t.Errorf("%v, %v", info, err)
	}
}

func TestOrdinaryUser(t *testing.T) {
	for _, alone := range []bool{false, true} {
		root := newWorkspace(t)
		spec := shell(t, root, "id -u; echo x > made; cat made")
		e := errand{Spec: spec, LayerDir: layerDir(t), Alone: alone}
		if alone {
			e.Without = []string{jail.LayerGroup} // this user has none
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
	spec := shell(t, openWorkspace(t), "readlink /proc/self/ns/net")
	spec.Egress = egress.None
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	r := newTestRunner(t)
	report := mustRun(t, r, spec)
	if got := strings.TrimSpace(string(report.Stdout.Head)); got != own || slices.Contains(report.Requested, jail.LayerNetwork) {
		t.Errorf("got %s, asked for %v", got, report.Requested)
	}
	if _, err := newAloneRunner(t).Run(t.Context(), spec); reason.Of(err) != reason.EgressDenied {
		t.Errorf("got %v", err)
	}
	spec.Egress = egress.Strict
	if got := succeeds(t, r, spec); strings.TrimSpace(got) == own {
		t.Error("strict egress left the host's network")
	}
	loopback := specOf(t, spec.WorkspaceRoot, "python3", "-c",
		"import socket; l=socket.create_server(('127.0.0.1',0)); socket.create_connection(l.getsockname(),2); print('ok')")
	if got := succeeds(t, r, loopback); got != "ok\n" {
		t.Errorf("got %q", got)
	}
}

// What the filter denies is in the report, with the program as seen inside.
func TestViolationsAreReported(t *testing.T) {
	report := mustRun(t, newTestRunner(t), shell(t, newWorkspace(t), "unshare -U true; true"))
	if len(report.Violations) == 0 || report.Violations[0].Syscall != "unshare" || report.Violations[0].Executable != "/usr/bin/unshare" || !report.Isolation.Watched {
		t.Errorf("the violations are %+v, watched %v", report.Violations, report.Isolation.Watched)
	}
}

func TestPlacesOfTheRun(t *testing.T) {
	script := "cd $HOME && echo x > a && cd $TMPDIR && echo y > b && cat $HOME/a b && [ $HOME != $TMPDIR ] && pwd"
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			r := rung.make(t)
			got := succeeds(t, r, shell(t, openWorkspace(t), script))
			if !strings.HasPrefix(got, "x\ny\n") {
				t.Errorf("got %q", got)
			}
			if left := scratches(t, origin.Mark()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if rung.name == "user_namespaces" && !strings.HasSuffix(got, inside.Tmp+"\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// scratches are the directories that runs of a daemon have left.
func scratches(t *testing.T, mark string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+mark+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A cache is kept between runs, wherever it is found inside.
func TestCaches(t *testing.T) {
	root, cache := newWorkspace(t), newWorkspace(t)
	spec := shell(t, root, `cat $TOOLCACHE/kept 2>/dev/null; echo kept > $TOOLCACHE/kept; [ $EMPTY = a/cache/other ]`)
	spec.Env = []string{"EMPTY=a/cache/other"}
	spec.Caches = []sandbox.Cache{{Name: "tool", Dir: cache, Env: []string{"TOOLCACHE=" + sandbox.CacheMount + "/tool", "EMPTY=not mine"}}}
	r := newTestRunner(t)
	if first, second := succeeds(t, r, spec), succeeds(t, r, spec); first != "" || second != "kept\n" {
		t.Errorf("got %q and %q", first, second)
	}
	result := asOrdinary(t, errand{Spec: spec, LayerDir: layerDir(t), Alone: true, Without: []string{jail.LayerGroup}})
	if os.Geteuid() == 0 {
		giveAway(t, cache)
		result = asOrdinary(t, errand{Spec: spec, LayerDir: layerDir(t), Alone: true, Without: []string{jail.LayerGroup}})
	}
	if string(result.Report.Stdout.Head) != "kept\n" {
		t.Errorf("got %q, %s, %s", result.Report.Stdout.Head, result.Report.Stderr.Head, result.Error)
	}
	newAlone := newAloneRunner(t)
	if newAlone.machine.Root() {
		spec.WorkspaceRoot = openWorkspace(t)
		spec.Argv[2] = "[ -z $TOOLCACHE ]"
		succeeds(t, newAlone, spec)
	}
}

// A program of the workspace runs from its copy, with the bytes that were
// approved.
func TestProgramOfTheWorkspace(t *testing.T) {
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.Direct, sandbox.CopyOnWrite} {
		root := newWorkspace(t)
		writeFile(t, filepath.Join(root, "tool"), "#!/bin/sh\necho here\n", 0o755)
		spec := specOf(t, root, "./tool")
		spec.Workspace = mode
		r := newTestRunner(t)
		if got := succeeds(t, r, spec); got != "here\n" {
			t.Errorf("%s: got %q", mode, got)
		}
		writeFile(t, filepath.Join(root, "tool"), "#!/bin/sh\necho there\n", 0o755)
		if _, err := r.Run(t.Context(), spec); reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: got %v", mode, err)
		}
	}
}

// A direct run cannot change protected files where it has mounts, and what it
// makes of them is put aside on either rung.
func TestProtectedFilesOfDirectRuns(t *testing.T) {
	for _, rung := range rungs {
		root := openWorkspace(t)
		writeFile(t, filepath.Join(root, ".envrc"), "old", 0o666)
		report := mustRun(t, rung.make(t), shell(t, root, "echo new > .envrc; echo evil > .mcp.json; echo fine > made; true"))
		text, err := os.ReadFile(filepath.Join(root, ".envrc"))
		if err != nil || (string(text) == "old") != (report.Rung == sandbox.UserNamespaces) {
			t.Errorf("%s: %q, %v", rung.name, text, err)
		}
		if told := strings.Contains(strings.Join(report.Downgrades, "\n"), "direct: without mounts"); told != (report.Rung == sandbox.Landlocked) {
			t.Errorf("%s: the downgrades are %q", rung.name, report.Downgrades)
		}
		if !slices.Equal(report.Quarantined, []string{".mcp.json"}) {
			t.Errorf("%s: put aside: %q", rung.name, report.Quarantined)
		}
		if _, err := os.Stat(filepath.Join(root, "made")); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	r, root := newTestRunner(t), newWorkspace(t)
	good := shell(t, root, "true")
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
		{func(s *sandbox.Spec) { s.EgressHosts = []string{"a:443"} }, reason.EgressDenied},
		{func(s *sandbox.Spec) { s.Required = []string{jail.LayerUTS} }, reason.SandboxUnavailable},
	} {
		spec := good
		c.change(&spec)
		if _, err := r.Run(t.Context(), spec); reason.Of(err) != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	off, err := newRunner(Config{}, helperProgram)
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	if _, err := off.Run(t.Context(), good); reason.Of(err) != reason.SandboxDisabled {
		t.Errorf("got %v", err)
	}
	if status := off.Probe(t.Context()); !status.Available || status.Rung != sandbox.UserNamespaces || status.Tier != sandbox.TierB {
		t.Errorf("got %+v", status)
	}
	none, err := newRunner(Config{Enabled: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := none.Run(t.Context(), good); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("got %v", err)
	}
	if status := none.Probe(t.Context()); status.Available || status.Problem == "" || status.Remedy == "" {
		t.Errorf("got %+v", status)
	}
}

// Without user namespaces the lower rung is used only where it is allowed.
func TestLowestRung(t *testing.T) {
	for _, c := range []struct {
		lowest sandbox.Isolation
		works  bool
	}{{sandbox.Landlocked, true}, {sandbox.UserNamespaces, false}, {"", false}} {
		r, err := newRunner(Config{Enabled: true, Lowest: c.lowest, Without: []string{jail.LayerUserNS}}, helperProgram)
		if err != nil {
			t.Fatal(err)
		}
		status := r.Probe(t.Context())
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if status.Available != c.works || c.works && status.Rung != sandbox.Landlocked {
			t.Errorf("%q: %+v", c.lowest, status)
		}
	}
}
