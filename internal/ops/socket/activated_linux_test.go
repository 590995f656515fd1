package socket

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestActivated runs itself again with sockets from a service manager, and takes the agents'
// socket.
func TestActivated(t *testing.T) {
	t.Parallel()
	const variable, address = "TEST_PALYRA_ACTIVATED", "TEST_PALYRA_ADDRESS"
	if mode := os.Getenv(variable); mode != "" {
		takeActivated(t, mode, os.Getenv(address))
		return
	}
	other := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	held := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { other.Close(); held.Close() })
	files := []*os.File{must.Get(other.(*net.TCPListener).File())(t), must.Get(held.(*net.TCPListener).File())(t)}
	for mode, env := range map[string]string{
		"held":       "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=other:agents",
		"other port": "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=agents:other",
		"not ours":   "LISTEN_PID=1 LISTEN_FDS=2 LISTEN_FDNAMES=other:agents",
		"no name":    "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b",
		"too many":   "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=other:agents",
		"no number":  "LISTEN_PID=$$ LISTEN_FDS=x LISTEN_FDNAMES=agents",
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", env+` exec "$0" "$@"`, "/proc/self/exe", "-test.run=^TestActivated$", "-test.v")
		cmd.Args[3] = must.Get(os.Executable())(t)
		cmd.ExtraFiles = files
		cmd.Env = append(os.Environ(), variable+"="+mode, address+"="+held.Addr().String())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestActivated") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

func takeActivated(t *testing.T, mode, address string) {
	l, err := Listener("agents", address)
	if left := os.Getenv("LISTEN_PID") + os.Getenv("LISTEN_FDS"); left != "" {
		t.Errorf("programs hear of %q", left)
	}
	switch mode {
	case "held":
		must.Do(t, err)
		if l.Addr().String() != address {
			t.Errorf("it listens on %s", l.Addr())
		}
		// A client of the held port reaches this process.
		conn, err := net.Dial("tcp", address)
		must.Do(t, err)
		served := must.Get(l.Accept())(t)
		if served.RemoteAddr().String() != conn.LocalAddr().String() {
			t.Error("somebody else was served")
		}
		if again, err := Listener("agents", address); again != nil || err != nil {
			t.Errorf("taken twice: %v, %v", again, err)
		}
	case "other port", "no number":
		if reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("got %v, %v", l, err)
		}
	default:
		if l != nil || err != nil {
			t.Errorf("got %v, %v", l, err)
		}
	}
}
