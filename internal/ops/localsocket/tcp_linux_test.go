package localsocket

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestConnectTCP is the process that connects in TestNeighbors.
func TestConnectTCP(t *testing.T) {
	t.Parallel()
	at := os.Getenv("TEST_PALYRA_PORT")
	if at == "" {
		t.Skip("it is a part of another test")
	}
	c := must.Get(net.Dial("tcp", at))(t)
	defer c.Close()
	if os.Getenv("TEST_PALYRA_LEAVES") != "" {
		must.Do(t, c.Close())
	}
	_, _ = os.Stdout.WriteString("x")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the peer was checked
}

// neighbor connects to l as a user, and returns the peer. With leaves, the client closes its
// end before the peer is checked.
func neighbor(t *testing.T, l *Listener, uid int, leaves bool) Peer {
	t.Helper()
	cmd := exec.Command(program(t), "-test.run=^TestConnectTCP$")
	cmd.Env = append(os.Environ(), "TEST_PALYRA_PORT="+l.Addr().String(), "GOCOVERDIR="+t.TempDir())
	if leaves {
		cmd.Env = append(cmd.Env, "TEST_PALYRA_LEAVES=1")
	}
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Dir = "/"
	hold, said := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(said.Read(make([]byte, 1)))(t) // the client has connected, and closed if leaves is set
	c := must.Get(l.Accept())(t)
	p, ok := AgentOf(AgentContext(t.Context(), c))
	if _, local := PeerOf(ConnContext(t.Context(), nil)); !ok || local {
		t.Error("the peer is not known, or is the local operator")
	}
	must.Check(t, c.Close())
	must.Check(t, hold.Close())
	_ = cmd.Wait() // the client has connected, even if its test was skipped
	return p
}

// program returns the path of a copy of this test's program that every user can run.
func program(t *testing.T) string {
	t.Helper()
	dir := private(t)
	must.Do(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "test")
	// Another process makes the copy. If this process had the copy open for writing, a parallel
	// test could fork, and the inherited descriptor would prevent its execution (ETXTBSY,
	// execve(2)).
	must.Do(t, exec.CommandContext(t.Context(), "cp", must.Get(os.Executable())(t), path).Run())
	must.Do(t, os.Chmod(path, 0o755))
	return path
}

func listening(t *testing.T, network, at string, also ...int64) *Listener {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Skipf("nothing listens on %s here: %v", at, err)
	}
	return must.Get(Loopback(l, private(t), also...))(t)
}

// TestNeighbors: the owner of the directory is accepted. Another user is refused unless listed,
// and so is a client that has disconnected before the check.
func TestNeighbors(t *testing.T) {
	t.Parallel()
	own := os.Geteuid()
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(at, func(t *testing.T) {
			l := listening(t, "tcp", at)
			defer l.Close()
			if p := neighbor(t, l, own, false); p.Refused != nil || p.UID != int64(own) {
				t.Errorf("the owner is %v: %v", p, p.Refused)
			}
			if p := neighbor(t, l, own, true); reason.Of(p.Refused) != reason.Unauthenticated || p.UID != -1 {
				t.Errorf("a disconnected client is uid %d: %v", p.UID, p.Refused)
			}
			if own != 0 {
				t.Skip("only root starts a process of another user")
			}
			const stranger = 12345
			if p := neighbor(t, l, stranger, false); reason.Of(p.Refused) != reason.Unauthenticated || p.UID != stranger {
				t.Errorf("a stranger is uid %d: %v", p.UID, p.Refused)
			}
			listed := listening(t, "tcp", at, stranger)
			defer listed.Close()
			if p := neighbor(t, listed, stranger, false); p.Refused != nil { // control
				t.Errorf("a listed user: %v", p.Refused)
			}
		})
	}
}
