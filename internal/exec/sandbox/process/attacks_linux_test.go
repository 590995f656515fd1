package process

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// attack is a program that prints "done" if a forbidden action succeeds. It must fail with
// every layer in force, and succeed without the layers in open.
type attack struct {
	name   string
	python string
	// open are the layers of each rung whose absence lets the attack succeed.
	open map[string][]string
}

func TestAttacksFailAndSucceedWithoutTheLayer(t *testing.T) {
	t.Parallel()
	host := startHost(t)
	for _, a := range attacks(host) {
		for _, rung := range rungs {
			layers, ok := a.open[rung.name]
			if !ok {
				continue
			}
			t.Run(a.name+"/"+rung.name, func(t *testing.T) {
				spec := jailtest.Spec(t, openWorkspace(t), "python3", "-c", a.python)
				if report := jailtest.Run(t, rung.make(t), spec); strings.Contains(string(report.Stdout.Head), "done") {
					t.Errorf("the attack succeeded: %s", report.Stdout.Head)
				}
				report := jailtest.Run(t, rung.make(t, layers...), spec)
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

// host has the objects that a program must not reach.
type host struct {
	secret, victim string
	port           int
	// socket is the path of a service's socket, abstract the name of another one.
	socket, abstract string
	// shared is the key of a segment of shared memory.
	shared int
}

// hosts counts the calls of startHost.
var hosts atomic.Int32

func startHost(t *testing.T) host {
	t.Helper()
	needs.Programs(t)
	dir := hostDir(t)
	h := host{secret: filepath.Join(dir, "secret"), victim: filepath.Join(dir, "victim"), socket: filepath.Join(dir, "socket")}
	jailtest.WriteFile(t, h.secret, "secret", 0o644)
	jailtest.WriteFile(t, h.victim, "whole", 0o666)
	h.abstract = "palyra-" + filepath.Base(dir)
	for _, network := range []struct{ kind, address string }{{"tcp", "127.0.0.1:0"}, {"unix", h.socket}, {"unix", "@" + h.abstract}} {
		l := must.Get(net.Listen(network.kind, network.address))(t)
		t.Cleanup(func() { l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			h.port = a.Port
		}
	}
	must.Do(t, os.Chmod(h.socket, 0o777))
	// Each host has a separate segment, because another test would remove a shared one.
	h.shared = os.Getpid() + int(1+hosts.Add(1)%64)<<24
	id := must.Get(unix.SysvShmGet(h.shared, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666))(t)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return h
}

// hostDir is a directory that every user may enter and that no sandbox covers.
func hostDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/var/tmp", "palyra-test-"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

func attacks(h host) []attack {
	both := func(layers ...string) map[string][]string {
		return map[string][]string{"user_namespaces": layers, "landlock": layers}
	}
	libc := "import ctypes,os\nc=ctypes.CDLL(None,use_errno=True)\n"
	port := strconv.Itoa(h.port)
	return []attack{
		{"read a file outside", "print(open('" + h.secret + "').read()=='secret' and 'done')", both(jail.LayerLandlock)},
		{"write a file outside", "open('" + h.victim + "','a').write('x'); print('done')", map[string][]string{"landlock": {jail.LayerLandlock}}},
		{"read the configuration", "open('/etc/shells').read(); print('done')", both(jail.LayerLandlock)},
		{"list the root", "import os; os.listdir('/'); print('done')", both(jail.LayerLandlock)},
		{"list the homes", "import os; os.listdir('/home'); print('done')", both(jail.LayerLandlock)},
		{"connect to the host", "import socket; socket.create_connection(('127.0.0.1'," + port + "),2); print('done')",
			map[string][]string{"user_namespaces": {jail.LayerNetwork}, "landlock": {jail.LayerSeccomp, jail.LayerLandlock}}},
		{"udp", "import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('127.0.0.1'," + port + ")); print('done')", map[string][]string{"landlock": {jail.LayerSeccomp}}},
		{"a unix socket", "import socket; socket.socket(socket.AF_UNIX); print('done')", both(jail.LayerSeccomp)},
		{"a service's socket", "import socket; socket.socket(socket.AF_UNIX).connect('" + h.socket + "'); print('done')", both(jail.LayerSeccomp)},
		{"an abstract socket", "import socket; socket.socket(socket.AF_UNIX).connect('\\0" + h.abstract + "'); print('done')",
			both(jail.LayerSeccomp, jail.LayerLandlock, jail.LayerNetwork)},
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

// Two mechanisms protect the host's network on the lower rung, and each is sufficient alone.
func TestEachMechanismDeniesTCP(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	script := "import socket; socket.create_connection(('127.0.0.1'," + strconv.Itoa(h.port) + "),2)"
	for layer, want := range map[string]string{jail.LayerSeccomp: "PermissionError", jail.LayerLandlock: "Address family not supported"} {
		report := jailtest.Run(t, newAloneRunner(t, layer), jailtest.Spec(t, openWorkspace(t), "python3", "-c", script))
		if got := string(report.Stderr.Head); !strings.Contains(got, want) {
			t.Errorf("without %s: %s", layer, got)
		}
	}
}

func TestCallsThatTakeMoreThanAShare(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			jailtest.SystemCalls(t, rung.make(t), rung.make(t, jail.LayerSeccomp), openWorkspace)
			jailtest.Refusals(t, rung.make(t), openWorkspace)
			jailtest.Preallocation(t, rung.make(t), openWorkspace)
		})
	}
}

func TestSocketPairs(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			bare := rung.make(t, jail.LayerSeccomp, jail.LayerLandlock, jail.LayerNetwork)
			jailtest.SocketPairs(t, rung.make(t), bare, openWorkspace)
		})
	}
}

// The first process stays in the sandbox, and its memory and file descriptors are not
// accessible.
func TestFirstProcessIsOutOfReach(t *testing.T) {
	t.Parallel()
	script := `cat /proc/1/task/*/status | grep -c 'CapEff:[[:space:]]0000000000000000'; ls /proc/1/task | wc -l
		for f in environ mem maps; do head -c1 /proc/1/$f > /dev/null 2>&1 && echo $f; done; ls /proc/1/fd > /dev/null 2>&1 && echo fd; true`
	got := strings.Fields(jailtest.Output(t, newTestRunner(t), jailtest.Shell(t, jailtest.Workspace(t), script)))
	if len(got) != 2 || got[0] != got[1] || got[0] == "0" {
		t.Errorf("powerless threads, threads, and what can be read: %v", got)
	}
}

// A program traces its children where it has a process namespace, and never the first process.
func TestTracing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runner *Runner
		want   string
	}{
		"all layers":                  {newTestRunner(t), "traced\nEPERM\n"},
		"without a process namespace": {newTestRunner(t, jail.LayerPIDs), "EPERM\nEPERM\n"},
		"without Landlock":            {newTestRunner(t, jail.LayerLandlock), "EPERM\nEPERM\n"},
		"without namespaces":          {newAloneRunner(t), "EPERM\nEPERM\n"},
	} {
		if got := jailtest.Traced(t, c.runner, openWorkspace); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTracedByItsParent: a program that asks the first process of its process namespace to trace it
// (PTRACE_TRACEME) runs on. Its signals have their usual effects, and it can execute another
// program. Control: the same program without the request.
func TestTracedByItsParent(t *testing.T) {
	t.Parallel()
	const script = `import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"handled "))
if sys.argv[1] == "traced" and ctypes.CDLL(None).ptrace(0, 0, None, None) != 0: sys.exit("PTRACE_TRACEME failed")
if len(sys.argv) > 2: os.execv(sys.executable, [sys.executable, "-c", "print('executed')"])
os.kill(os.getpid(), signal.SIGUSR1)
`
	r := newTestRunner(t)
	for _, who := range []string{"traced", "control"} {
		for _, c := range []struct{ args, want string }{{who, "handled "}, {who + " exec", "executed\n"}} {
			s := jailtest.Spec(t, openWorkspace(t), append([]string{"python3", "-c", script}, strings.Fields(c.args)...)...)
			if got := jailtest.Output(t, r, s); got != c.want {
				t.Errorf("%s: the output is %q", c.args, got)
			}
		}
	}
}

// A copy of the workspace gives no Unix sockets in Tier B, where the host's files are visible.
func TestUnixSocketsInCopies(t *testing.T) {
	t.Parallel()
	for _, mode := range []sandbox.WorkspaceMode{sandbox.CopyOnWrite, sandbox.ReadOnly, sandbox.Direct} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", "import socket; socket.socket(socket.AF_UNIX)")
		s.Workspace = mode
		if report := jailtest.Run(t, newTestRunner(t), s); !strings.Contains(string(report.Stderr.Head), "Errno 97") {
			t.Errorf("%s: %s: %s", mode, jailtest.Ending(report), report.Stderr.Head)
		}
	}
}

// Landlock protects neither modes nor times. Read-only mounts do, and without mounts the report
// states the gap.
func TestMetadataOfTheHost(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		victim := filepath.Join(hostDir(t), "victim")
		jailtest.WriteFile(t, victim, "whole", 0o600)
		if os.Geteuid() == 0 {
			must.Do(t, os.Chown(victim, jailtest.User, jailtest.User))
		}
		spec := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", "import os; os.chmod('"+victim+"', 0o666); os.utime('"+victim+"', (0,0))")
		result := asOrdinary(t, errand{Spec: spec, LayerDir: jailtest.Dir(t), Alone: alone, Without: []string{jail.LayerGroup}})
		info := must.Get(os.Stat(victim))(t)
		if changed := info.Mode().Perm() != 0o600; changed != alone {
			t.Errorf("alone %v: the mode is %v: %s%s", alone, info.Mode(), result.Error, result.Report.Stderr.Head)
		}
		if told := strings.Contains(strings.Join(result.Report.Downgrades, "\n"), "metadata: "); told != alone {
			t.Errorf("alone %v: the downgrades are %q", alone, result.Report.Downgrades)
		}
	}
}

// The filter protects the daemon's limits from a program of the same user if no PID namespace
// exists. Landlock protects the daemon from its signals.
func TestProcessesOfTheSameUser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, python, layer string }{
		{"limits", "import resource,os; resource.prlimit(os.getppid(), resource.RLIMIT_CORE); print('done')", jail.LayerSeccomp},
		{"signals", "import os; os.kill(os.getppid(), 0); print('done')", jail.LayerLandlock},
	} {
		for _, open := range []bool{false, true} {
			e := errand{Spec: jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", c.python), LayerDir: jailtest.Dir(t), Alone: true, Without: []string{jail.LayerGroup}}
			if open {
				e.Without = append(e.Without, c.layer)
			}
			result := asOrdinary(t, e)
			if done := strings.Contains(string(result.Report.Stdout.Head), "done"); done != open {
				t.Errorf("%s, open %v: %s, %s%s", c.name, open, result.Error, result.Report.Stdout.Head, result.Report.Stderr.Head)
			}
		}
	}
}
