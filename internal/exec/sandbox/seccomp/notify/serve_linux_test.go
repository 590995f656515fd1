//go:build linux && (amd64 || arm64)

package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox/seccomp"
)

// child is a real process under a watching filter.
type child struct {
	cmd      *exec.Cmd
	listener *os.File
	socket   *os.File
	out      strings.Builder
	err      strings.Builder
}

// startChild returns after the child has installed its filter and waits.
func startChild(t *testing.T, names ...string) *child {
	t.Helper()
	return startProgram(t, "/proc/self/exe", names...)
}

// startProgram is startChild with this binary at another path.
func startProgram(t *testing.T, path string, names ...string) *child {
	t.Helper()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	c := &child{cmd: exec.Command(path, names...), socket: os.NewFile(uintptr(pair[0]), "socket")}
	c.cmd.Env = append(os.Environ(), childMode+"=1", "GORACE=atexit_sleep_ms=0")
	c.cmd.ExtraFiles = []*os.File{theirs}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	must.Do(t, c.cmd.Start())
	t.Cleanup(func() {
		c.socket.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	c.listener = c.takeListener(t)
	t.Cleanup(func() { c.listener.Close() })
	return c
}

func (c *child) takeListener(t *testing.T) *os.File {
	t.Helper()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(c.socket.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	must.Do(t, err)
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("no listener came: %v, %s", err, &c.err)
	}
	fds := must.Get(unix.ParseUnixRights(&messages[0]))(t)
	return must.Get(Open(fds[0]))(t)
}

func (c *child) release(t *testing.T) {
	t.Helper()
	must.Get(c.socket.Write([]byte{0}))(t)
}

// errnos waits for the child and returns the results of its calls.
func (c *child) errnos(t *testing.T) []unix.Errno {
	t.Helper()
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &c.err)
	}
	var errnos []unix.Errno
	if err := json.Unmarshal([]byte(c.out.String()), &errnos); err != nil {
		t.Fatalf("%v: %q", err, &c.out)
	}
	return errnos
}

type served struct {
	log Log
	err error
}

func serve(c *child) <-chan served {
	done := make(chan served, 1)
	go func() {
		log, err := Serve(c.listener, seccomp.NewTable(seccomp.Options{Watch: true}))
		done <- served{log, err}
	}()
	return done
}

func wait(t *testing.T, done <-chan served) Log {
	t.Helper()
	s := must.Receive(t, "Serve ends", done)
	must.Do(t, s.err)
	return s.log
}

// The answers equal the filter's answers, the log contains only watched calls, and Serve ends
// with the child.
func TestServe(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range attempts {
		names = append(names, a.name)
	}
	before := time.Now()
	c := startChild(t, names...)
	done := serve(c)
	c.release(t)
	errnos := c.errnos(t)
	log := wait(t, done)
	self := must.Get(os.Executable())(t)
	left := log.Violations
	for i, a := range attempts {
		if errnos[i] != a.want {
			t.Errorf("%s: %v, want %v", a.name, errnos[i], a.want)
		}
		if a.reported == nil {
			continue
		}
		if len(left) == 0 {
			t.Fatalf("%s is not in the log", a.name)
		}
		v := left[0]
		left = left[1:]
		if v.Syscall != a.name || v.Errno != unix.ErrnoName(a.want) || !slices.Equal(v.Arguments, a.reported) || v.Executable != self || v.At.Before(before) {
			t.Errorf("the log says %+v of %s", v, a.name)
		}
	}
	want := []tool.Refusal{{By: "seccomp", Operation: "socket of a unix socket (stream; Tier C has them with workspace_mode copy_on_write and egress strict)", Reason: "EAFNOSUPPORT", Count: 1}}
	if !slices.Equal(log.Refusals, want) || log.RefusalsMissed != 0 {
		t.Errorf("refusals %+v and %d more, want %+v", log.Refusals, log.RefusalsMissed, want)
	}
	if len(left) > 0 || log.Missed != 0 {
		t.Errorf("the log also holds %+v and missed %d", left, log.Missed)
	}
}

func TestFloodIsBoundedAndSlow(t *testing.T) {
	t.Parallel()
	const extra = 40
	c := startChild(t, slices.Repeat([]string{"mount"}, mostRecords+extra)...)
	done := serve(c)
	start := time.Now()
	c.release(t)
	for i, errno := range c.errnos(t) {
		if errno != unix.EPERM {
			t.Fatalf("call %d: %v", i, errno)
		}
	}
	if took := time.Since(start); took < extra*pause {
		t.Errorf("%d calls past the log took %v", extra, took)
	}
	if log := wait(t, done); len(log.Violations) != mostRecords || log.Missed != extra {
		t.Errorf("%d records and %d missed, want %d and %d", len(log.Violations), log.Missed, mostRecords, extra)
	}
}

// A program that repeats an ordinary refused call gets the same errno each time, takes no memory
// for it, and does not wait like one that repeats a violation.
func TestRepeatedRefusals(t *testing.T) {
	t.Parallel()
	const calls = mostAtOnce / 2
	c := startChild(t, slices.Repeat([]string{"nscd"}, calls)...)
	done := serve(c)
	start := time.Now()
	c.release(t)
	for i, errno := range c.errnos(t) {
		if errno != unix.EAFNOSUPPORT {
			t.Fatalf("call %d: %v", i, errno)
		}
	}
	took := time.Since(start)
	t.Logf("%s for each refused call, with the start and the end of the program", took/calls)
	log := wait(t, done)
	if len(log.Violations) > 0 || len(log.Refusals) != 1 || log.Refusals[0].Count != calls {
		t.Errorf("%+v", log)
	}
}

// The kinds of refusals are bounded, and further ones are counted. The pace bounds the calls of a
// flood.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	s := server{}
	const calls = 100_000
	for i := range calls {
		s.refuse(request{nr: int32(5000 + i/3)}, unix.EPERM)
	}
	if len(s.log.Refusals) != mostRefusals || s.log.Refusals[0].Count != 3 || s.log.RefusalsMissed != calls-3*mostRefusals {
		t.Errorf("%d kinds, %d missed: %+v", len(s.log.Refusals), s.log.RefusalsMissed, s.log.Refusals[0])
	}
	var p pace
	start := time.Now()
	for range 3*mostAtOnce + 1 {
		p.wait()
	}
	if took := time.Since(start); took < 2*window {
		t.Errorf("%d calls took %s", 3*mostAtOnce+1, took)
	}
}

// Signals, of which the Go runtime sends many, neither interrupt a call nor make it run or be
// recorded twice.
func TestSignalsDoNotRepeatCalls(t *testing.T) {
	t.Parallel()
	c := startChild(t, slices.Repeat([]string{"mount"}, mostRecords)...)
	done := serve(c)
	stop := make(chan struct{})
	var storm sync.WaitGroup
	storm.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = c.cmd.Process.Signal(unix.SIGURG)
			}
		}
	})
	c.release(t)
	log := wait(t, done)
	close(stop)
	storm.Wait()
	for i, errno := range c.errnos(t) {
		if errno != unix.EPERM {
			t.Errorf("call %d: %v", i, errno)
		}
	}
	if len(log.Violations) != mostRecords || log.Missed != 0 {
		t.Errorf("%d calls were written down, and %d more", len(log.Violations), log.Missed)
	}
}

// A waiting call fails if the last listener is closed, for example because the daemon is
// killed. All later calls fail as well.
func TestListenerClosed(t *testing.T) {
	t.Parallel()
	c := startChild(t, "mount", "mount", "getpid")
	c.release(t)
	conn := must.Get(c.listener.SyscallConn())(t)
	waiting := func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil
	}
	must.Do(t, conn.Read(waiting))
	c.listener.Close()
	if got, want := c.errnos(t), []unix.Errno{unix.ENOSYS, unix.ENOSYS, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestClosingEndsServe(t *testing.T) {
	t.Parallel()
	c := startChild(t, slices.Repeat([]string{"mount"}, 5000)...)
	done := serve(c)
	c.release(t)
	if _, err := c.socket.Read(make([]byte, 1)); err != nil { // during the flood
		t.Fatal(err)
	}
	c.listener.Close()
	if log := wait(t, done); len(log.Violations) == 0 {
		t.Error("nothing was written down")
	}
	errnos := c.errnos(t)
	if errnos[0] != unix.EPERM || errnos[len(errnos)-1] != unix.ENOSYS {
		t.Errorf("the first call got %v, the last one %v", errnos[0], errnos[len(errnos)-1])
	}
}

func TestServeNeedsAPollableFile(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Open(os.DevNull))(t)
	defer f.Close()
	if _, err := Serve(f, nil); err == nil {
		t.Error("a file that cannot be waited on was taken")
	}
}

// unnamed returns this binary in a memory file with a given name. Without seals it would be
// open for writing and could not be started.
func unnamed(t *testing.T, name string) *os.File {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/self/exe"))(t)
	fd := must.Get(unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { f.Close() })
	must.Get(f.Write(text))(t)
	must.Get(unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK))(t)
	return f
}

// A program chooses its own name, so the name is displayed without control characters.
func TestNameOfTheCallerIsHarmless(t *testing.T) {
	t.Parallel()
	c := startProgram(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), unnamed(t, "a\x1b[2Jb").Fd()), "mount")
	done := serve(c)
	c.release(t)
	c.errnos(t)
	if log := wait(t, done); len(log.Violations) != 1 || log.Violations[0].Executable != "/memfd:a\ufffd[2Jb (deleted)" {
		t.Errorf("the log says %+v", log.Violations)
	}
}

// A process ID may be reused at the time of the look-up, so a name counts only while the call
// waits.
func TestReusedProcessID(t *testing.T) {
	t.Parallel()
	c := startChild(t, "mount")
	nobody := request{id: 1 << 40, pid: uint32(os.Getpid())}
	if got := executable(int(c.listener.Fd()), nobody); got != "" {
		t.Errorf("a call that does not wait is made by %q", got)
	}
}

func TestNamesOfProgramsAreHarmless(t *testing.T) {
	t.Parallel()
	if got := printable("a\x1b[2Jb\nc"); got != "a\ufffd[2Jb\ufffdc" {
		t.Errorf("got %q", got)
	}
	if got := printable(strings.Repeat("é", mostName)); len(got) > mostName || !strings.HasPrefix(got, "éé") || strings.ContainsRune(got, 0xfffd) {
		t.Errorf("got %q", got)
	}
}

// The caller must not receive a success if the table allows a call that the kernel reported,
// because then table and filter differ.
func TestNoAnswerIsSuccess(t *testing.T) {
	t.Parallel()
	s := server{table: seccomp.NewTable(seccomp.Options{})}
	if got := s.errno(request{nr: unix.SYS_GETPID}); got != unix.EPERM {
		t.Errorf("got %v", got)
	}
}
