package bubblewrap

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// talk is a session with a program in a sandbox.
type talk struct {
	in      *os.File
	lines   *bufio.Scanner
	started sandbox.Underway
	report  chan sandbox.Report
	failed  chan error
}

func converse(ctx context.Context, t *testing.T, r *Runner, s sandbox.Spec) *talk {
	t.Helper()
	read, write, err := os.Pipe()
	must.Check(t, err)
	out, written := io.Pipe()
	began := make(chan sandbox.Underway, 1)
	c := &talk{in: write, lines: bufio.NewScanner(out), report: make(chan sandbox.Report, 1), failed: make(chan error, 1)}
	s.Session = &sandbox.Session{Stdin: read, Started: func(u sandbox.Underway) { read.Close(); began <- u }}
	s.Output = func(stream string, chunk []byte) {
		if stream == "stdout" {
			_, _ = written.Write(chunk)
		}
	}
	go func() {
		report, err := r.Run(ctx, s)
		written.Close()
		c.report <- report
		c.failed <- err
	}()
	select {
	case c.started = <-began:
	case err := <-c.failed:
		t.Fatal(err)
	}
	return c
}

func (c *talk) say(t *testing.T, line string) string {
	t.Helper()
	must.Get(io.WriteString(c.in, line+"\n"))(t)
	if !c.lines.Scan() {
		t.Fatal("no answer")
	}
	return c.lines.Text()
}

// TestSessionsTraceNothing: the program of a session may not trace, as the same program may in a
// run.
func TestSessionsTraceNothing(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", "import ctypes, sys\nfor line in sys.stdin: print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True)")
	c := converse(t.Context(), t, r, s)
	if got := c.say(t, "trace"); got != "-1" {
		t.Errorf("ptrace in a session returned %s", got)
	}
	must.Check(t, c.in.Close())
	<-c.report
	must.Check(t, <-c.failed)
	s.Stdin = []byte("trace\n")
	if got := jailtest.Output(t, r, s); got != "0\n" { // control
		t.Errorf("ptrace in a run returned %s", got)
	}
}

// TestSession: a program answers requests until the session ends. During the session, the
// verified isolation is available, and whether the program wrote.
func TestSession(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	root := t.TempDir()
	s := jailtest.Spec(t, root, "sh", "-c", `while read -r line; do case "$line" in write) echo x > f;; esac; echo "got $line"; done; exit 3`)
	s.Workspace = sandbox.CopyOnWrite
	s.Limits.Wall = time.Millisecond // the deadline of a run does not apply
	c := converse(t.Context(), t, r, s)
	if u := c.started.Report; u.Tier != sandbox.TierC || len(u.Isolation.Namespaces) == 0 || len(u.Applied) == 0 || u.Isolation.Rlimits["nproc"] == 0 {
		t.Errorf("known at the start: %+v", u)
	}
	if got := c.say(t, "hello"); got != "got hello" {
		t.Errorf("answer %q", got)
	}
	if wrote := must.Get(c.started.Wrote())(t); wrote {
		t.Error("nothing was written")
	}
	c.say(t, "write")
	if wrote := must.Get(c.started.Wrote())(t); !wrote {
		t.Error("the file was not seen")
	}
	must.Check(t, c.in.Close())
	report := <-c.report
	must.Check(t, <-c.failed)
	defer report.Layer.Close()
	if report.ExitCode == nil || *report.ExitCode != 3 || report.Layer == nil {
		t.Errorf("report %+v", report)
	}
	if set := must.Get(report.Layer.Changes(t.Context()))(t); len(set.Changes) != 1 || set.Changes[0].Path != "f" {
		t.Errorf("changes %+v", set.Changes)
	}
	if _, err := os.Stat(root + "/f"); err == nil {
		t.Error("the workspace itself was written to")
	}
}

// waitForNoReader waits until no process has the read end of the pipe open. A child process of
// a parallel test inherits all file descriptors from fork to exec.
func waitForNoReader(t *testing.T, write *os.File) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(write.Fd())}} // POLLERR is always reported
	n, err := unix.Poll(fds, int(time.Minute.Milliseconds()))
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(fds, int(time.Minute.Milliseconds()))
	}
	must.Check(t, err)
	return n == 1 && fds[0].Revents&unix.POLLERR != 0
}

// TestSessionLimits: memory and processes are limited in a session as well, and its end ends
// all its processes. Control: TestSession, in which no limit is exceeded.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	s := jailtest.Spec(t, t.TempDir(), "sh", "-c", `echo ready; read -r x; sleep 1000 & wait`)
	ctx, cancel := context.WithCancel(t.Context())
	c := converse(ctx, t, r, s)
	c.say(t, "")
	cancel()
	<-c.report
	if err := <-c.failed; reason.Of(err) != reason.Cancelled {
		t.Errorf("a session that was ended: %v", err)
	}
	if !waitForNoReader(t, c.in) {
		t.Error("a process is left that could read")
	}
	s = jailtest.Spec(t, t.TempDir(), "sh", "-c", `echo ready; read -r x; x=x; while :; do x="$x$x"; done`)
	s.Limits.Memory = 64 << 20
	c = converse(t.Context(), t, r, s)
	if !c.lines.Scan() {
		t.Fatal("not ready")
	}
	must.Get(io.WriteString(c.in, "\n"))(t)
	if report := <-c.report; report.Quota != sandbox.QuotaMemory && (report.ExitCode == nil || *report.ExitCode == 0) {
		t.Errorf("a program that takes too much memory: %+v", report)
	}
	<-c.failed
}
