package bubblewrap

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// listenAt listens on a socket that every user may connect to. Its path may be longer than an
// address.
func listenAt(t *testing.T, path string) {
	t.Helper()
	near := filepath.Join(must.Get(os.MkdirTemp("/var/tmp", "palyra-s-"))(t), "s")
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(near)) })
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: near, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	must.Do(t, errors.Join(os.Chmod(near, 0o777), os.Rename(near, path)))
}

// connectScript connects to the sockets of its arguments, by their directories, and prints the
// results.
const connectScript = `import errno, os, socket, sys
for name in sys.argv[1:]:
    os.chdir(os.path.dirname(name))
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(os.path.basename(name)); print("connected")
    except OSError as e: print(errno.errorcode[e.errno])
`

// TestSocketsOfOthers: where a run may have Unix sockets, it cannot connect to a socket of the
// workspace or of a toolchain. Where it could, it has none.
func TestSocketsOfOthers(t *testing.T) {
	t.Parallel()
	_, chain := jailtest.Home(t)
	behind := filepath.Join(chain.Dirs[0], "s")
	listenAt(t, behind)
	run := func(r *Runner, mode sandbox.WorkspaceMode) string {
		root := jailtest.Workspace(t)
		listenAt(t, filepath.Join(root, "s"))
		s := jailtest.Spec(t, root, "python3", "-c", connectScript, "/workspace/s", behind)
		s.Workspace, s.Toolchains = mode, []command.Toolchain{chain}
		return jailtest.Output(t, r, s)
	}
	whole, bare := newTestRunner(t), newTestRunner(t, jail.LayerSeccomp)
	for mode, want := range map[sandbox.WorkspaceMode]string{
		sandbox.CopyOnWrite: "ECONNREFUSED\nECONNREFUSED\n", sandbox.ReadOnly: "EAFNOSUPPORT\nEAFNOSUPPORT\n", sandbox.Direct: "EAFNOSUPPORT\nEAFNOSUPPORT\n",
	} {
		if got := run(whole, mode); got != want {
			t.Errorf("%s: %q, want %q", mode, got, want)
		}
	}
	if got := run(bare, sandbox.CopyOnWrite); got != "ECONNREFUSED\nECONNREFUSED\n" {
		t.Errorf("in a copy without the filter: %q", got)
	}
	root := jailtest.Workspace(t)
	listenAt(t, filepath.Join(root, "s"))
	s := jailtest.Spec(t, root, "python3", "-c", connectScript, "/workspace/s", behind)
	s.Workspace, s.Toolchains = sandbox.CopyOnWrite, []command.Toolchain{chain}
	if got := asUser(t, root, s); string(got.Report.Stdout.Head) != "ECONNREFUSED\nECONNREFUSED\n" {
		t.Errorf("as an ordinary user: %q %s", got.Report.Stdout.Head, got.Error)
	}
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.Direct} { // control
		if got := run(bare, mode); got != "connected\nconnected\n" {
			t.Errorf("%s without the filter: %q", mode, got)
		}
	}
}

// TestOwnSockets: the processes of a run talk over sockets of each type. No run makes a socket in a
// cache, which other runs have as well.
func TestOwnSockets(t *testing.T) {
	t.Parallel()
	const script = `import errno, os, socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for name in ("/tmp/s%d" % kind, "\0s%d" % kind, "/workspace/s%d" % kind):
        l = socket.socket(socket.AF_UNIX, kind); l.bind(name); l.listen()
        c = socket.socket(socket.AF_UNIX, kind); c.connect(name); l.accept()[0].send(b"x"); print(c.recv(1).decode(), end="")
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.send(b"x"); print(b.recv(1).decode())
try: socket.socket(socket.AF_UNIX).bind("/cache/x/s"); print("made")
except OSError as e: print(errno.errorcode[e.errno])
`
	run := func(without ...string) string {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", script)
		s.Workspace, s.Caches = sandbox.CopyOnWrite, []sandbox.Cache{{Name: "x", Dir: jailtest.Dir(t)}}
		report := jailtest.Run(t, newTestRunner(t, without...), s)
		return string(report.Stdout.Head) + string(report.Stderr.Head)
	}
	if got := run(); got != "xxxxxxx\nEACCES\n" {
		t.Errorf("a run with a cache: %q", got)
	}
	if got := run(jail.LayerLandlock); !strings.Contains(got, "Errno 97") {
		t.Errorf("a run with a cache and without Landlock has sockets: %q", got)
	}
	if got := run(jail.LayerLandlock, jail.LayerSeccomp); got != "xxxxxxx\nmade\n" { // control
		t.Errorf("without Landlock and the filter: %q", got)
	}
}

// TestRefusedSocketIsReported: a run without Unix sockets reports that a program needed one.
func TestRefusedSocketIsReported(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	for mode, reported := range map[sandbox.WorkspaceMode]bool{sandbox.ReadOnly: true, sandbox.Direct: true, sandbox.CopyOnWrite: false} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", "import socket; socket.socket(socket.AF_UNIX)")
		s.Workspace = mode
		report := jailtest.Run(t, r, s)
		got := slices.ContainsFunc(report.Refusals, func(r tool.Refusal) bool {
			return strings.HasPrefix(r.Operation, "socket of a unix socket (stream; ") && r.Reason == "EAFNOSUPPORT"
		})
		if got != reported || len(report.Violations) > 0 {
			t.Errorf("%s: %+v, violations %+v", mode, report.Refusals, report.Violations)
		}
	}
}

// TestTerminals: a run has some terminals of its own, sees no other, and cannot write to their
// input.
func TestTerminals(t *testing.T) {
	t.Parallel()
	const script = `import errno, fcntl, os, pty, struct, termios
m, s = os.openpty()
print(os.ttyname(s), sorted(os.listdir("/dev/pts")), flush=True)
pid, fd = pty.fork()
if pid == 0:
    os.write(1, b"at " + os.ttyname(0).encode()); os._exit(0)
print(os.read(fd, 100).decode().strip(), os.waitpid(pid, 0)[1])
for request in (termios.TIOCSTI, termios.TIOCSTI | 1 << 32, termios.TIOCLINUX, termios.TIOCLINUX | 1 << 32):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    c = ctypes.c_char(b"x")
    print(errno.errorcode.get(ctypes.get_errno(), "taken") if libc.ioctl(s, ctypes.c_ulong(request), ctypes.byref(c)) < 0 else "taken", end=" ")
held = [m, s, fd]
try:
    while True: held += os.openpty()
except OSError as e: print(len(held) // 2 + 1, errno.errorcode[e.errno])
`
	run := func(mode sandbox.WorkspaceMode, without ...string) string {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", script)
		s.Workspace = mode
		report := jailtest.Run(t, newTestRunner(t, without...), s)
		return string(report.Stdout.Head) + string(report.Stderr.Head)
	}
	const most = " 64 ENOSPC\n"
	seen := "/dev/pts/0 ['0', 'ptmx']\nat /dev/pts/1 0\n"
	if got := run(sandbox.CopyOnWrite); got != seen+"EPERM EPERM EPERM EPERM"+most {
		t.Errorf("a copy: %q", got)
	}
	if got := run(sandbox.CopyOnWrite, jail.LayerSeccomp); !strings.HasPrefix(got, seen) || strings.Contains(got, "EPERM EPERM EPERM EPERM") { // control
		t.Errorf("a copy without the filter: %q", got)
	}
	if got := run(sandbox.ReadOnly); !strings.Contains(got, "FileNotFoundError") && !strings.Contains(got, "out of pty devices") {
		t.Errorf("a read-only workspace: %q", got)
	}
}

// TestTracing: a program traces its children, and neither the first process of its sandbox nor,
// without Landlock, any process.
func TestTracing(t *testing.T) {
	t.Parallel()
	run := func(without ...string) string {
		return jailtest.Traced(t, newTestRunner(t, without...), jailtest.Workspace)
	}
	if got := run(); got != "traced\nEPERM\n" {
		t.Errorf("with all layers: %q", got)
	}
	for _, layer := range []string{jail.LayerLandlock, jail.LayerPIDs} {
		if got := run(layer); got != "EPERM\nEPERM\n" {
			t.Errorf("without %s: %q", layer, got)
		}
	}
}
