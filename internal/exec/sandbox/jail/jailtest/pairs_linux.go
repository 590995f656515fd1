package jailtest

import (
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// pairScript sends a message to a child process over each kind of socket pair, and then tries to
// reconnect one end to a socket of the host, in the abstract namespace. It prints one line a kind.
const pairScript = `import errno, os, socket, sys
for kind in ("STREAM", "SEQPACKET", "DGRAM"):
    said = [kind]
    try:
        a, b = socket.socketpair(socket.AF_UNIX, getattr(socket, "SOCK_" + kind))
    except OSError as e:
        print(kind, errno.errorcode[e.errno]); continue
    child = os.fork()
    if child == 0:
        os._exit(0 if b.recv(16) == b"message" and b.send(b"answer") == 6 else 1)
    a.send(b"message")
    said += [a.recv(16).decode(), str(os.waitpid(child, 0)[1])]
    for other in (a, b):
        try:
            other.connect("\0" + sys.argv[1] + kind)
            said.append("reconnected")
        except OSError as e:
            said.append(errno.errorcode[e.errno])
    print(*said)
`

// pairs counts the calls of SocketPairs, whose sockets need distinct names.
var pairs atomic.Int32

// SocketPairs verifies that a program can use socket pairs that stay connected, and that neither
// their ends nor sockets of their kind reach a socket of the host. bare is a runner without the
// layers seccomp, landlock and network_namespace.
func SocketPairs(t *testing.T, r, bare sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	name := "palyra-pairs-" + strings.Repeat("x", int(pairs.Add(1))) + t.Name()
	for kind, number := range map[string]int{"STREAM": unix.SOCK_STREAM, "SEQPACKET": unix.SOCK_SEQPACKET, "DGRAM": unix.SOCK_DGRAM} {
		fd := must.Get(unix.Socket(unix.AF_UNIX, number|unix.SOCK_CLOEXEC, 0))(t)
		t.Cleanup(func() { unix.Close(fd) })
		must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name + kind}))
		if number != unix.SOCK_DGRAM {
			must.Do(t, unix.Listen(fd, 8))
		}
	}
	const connected = "STREAM answer 0 EISCONN EISCONN\nSEQPACKET answer 0 EISCONN EISCONN\n"
	run := func(r sandbox.Runner) string {
		return Output(t, r, Spec(t, workspace(t), "python3", "-c", pairScript, name))
	}
	// A network namespace hides the host's sockets, which the kernel looks up first.
	got := strings.ReplaceAll(run(r), "ECONNREFUSED", "EISCONN")
	if want := connected + "DGRAM EAFNOSUPPORT\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := run(bare), connected+"DGRAM answer 0 reconnected reconnected\n"; got != want { // control
		t.Errorf("without the layers: %q, want %q", got, want)
	}
	report := Run(t, r, Spec(t, workspace(t), "python3", "-c", "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)"))
	if !strings.Contains(string(report.Stderr.Head), "Errno 97") {
		t.Errorf("a socket that is no pair: %s: %s", Ending(report), report.Stderr.Head)
	}
}
