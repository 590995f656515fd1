package localsocket

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// TestConnect is the process that connects in TestOtherProcesses.
func TestConnect(t *testing.T) {
	t.Parallel()
	path := os.Getenv("TEST_PALYRA_SOCKET")
	if path == "" {
		t.Skip("it is a part of another test")
	}
	fd := must.Get(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
	must.Do(t, syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}))
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the peer was checked
}

// TestOtherProcesses: a process of this user is accepted. The same program is refused in its
// own user namespace, where it has the same uid.
func TestOtherProcesses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attr          *syscall.SysProcAttr
		refused, near bool
	}{
		"of this user":                          {nil, false, true},
		"of root in a pid namespace of its own": {&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, false, false},
		"in a user namespace of its own": {&syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(private(t), "s")
			l := must.Get(Listen(path))(t)
			defer l.Close()
			cmd := exec.Command(must.Get(os.Executable())(t), "-test.run=^TestConnect$")
			cmd.Env = append(os.Environ(), "TEST_PALYRA_SOCKET="+path)
			cmd.SysProcAttr = c.attr
			hold := must.Get(cmd.StdinPipe())(t)
			if err := cmd.Start(); err != nil {
				if c.attr != nil {
					t.Skipf("no namespace can be made here: %v", err)
				}
				t.Fatal(err)
			}
			conn := must.Get(l.Accept())(t)
			p, _ := PeerOf(ConnContext(t.Context(), conn))
			must.Check(t, conn.Close())
			must.Check(t, hold.Close())
			must.Check(t, cmd.Wait())
			if (p.Refused != nil) != c.refused || p.Near != c.near || p.UID != int64(os.Geteuid()) {
				t.Errorf("uid %s, near %t: %v", strconv.FormatInt(p.UID, 10), p.Near, p.Refused)
			}
		})
	}
}

// TestSameUserProcess: a process counts as local only if its uid is the one that connected. Its pid
// may belong to another process by the time of the check.
func TestSameUserProcess(t *testing.T) {
	t.Parallel()
	own := credentials{uid: int64(os.Geteuid()), pid: os.Getpid()}
	if !near(own) {
		t.Error("this process is not near")
	}
	if near(credentials{uid: own.uid + 1, pid: own.pid}) {
		t.Error("a process of another uid is near")
	}
	if near(credentials{uid: own.uid, pid: 1 << 30}) {
		t.Error("a process that does not exist is near")
	}
}
