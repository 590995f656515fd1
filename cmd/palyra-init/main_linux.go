// Command palyra-init runs before a tool does. With bubblewrap it runs twice. Outside, it makes
// mounts that bubblewrap cannot make. Inside, it drops all remaining privileges, verifies the
// layers in force, and becomes the tool. Without bubblewrap it runs once and performs the steps
// of both that the rung needs. It also holds a user namespace open for palyrad, and serves as
// the tool that tests whether a layer is in force. It is small and static and reads its orders
// from sealed descriptors, never from its environment.
package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

func main() {
	// Capabilities, Landlock, seccomp and the parent-death signal belong to one thread, so
	// everything from here to execve runs on this thread.
	runtime.LockOSThread()
	os.Exit(run(os.Args))
}

// run returns only on failure, or if there is no tool to become.
func run(args []string) int {
	stage := ""
	if len(args) > 1 {
		stage = args[1]
	}
	switch stage {
	case inside.StageHold:
		return hold()
	case inside.StageProbe:
		return probe(args[2:])
	}
	for fd := inside.ControlFD; fd <= inside.LastFD; fd++ {
		unix.CloseOnExec(fd)
	}
	var spec inside.Spec
	err := dieFirst()
	if err == nil {
		err = readSealed(inside.SpecFD, &spec)
	}
	if err == nil {
		switch stage {
		case inside.StageOuter:
			err = outer(spec.Outer)
		case inside.StageGround:
			err = ground(spec)
		case inside.StageInner:
			err = inner(spec.Inner)
		default:
			err = fail("reading the stage", unix.EINVAL)
		}
	}
	// If the report cannot be sent, the exit code still reports the failure.
	_ = send(failure(err))
	return 125
}

// dieFirst makes the kernel kill this program and its children before any other process when
// memory runs out, especially before palyrad.
func dieFirst() error {
	fd, err := unix.Open(oomScore, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(strconv.Itoa(inside.DieFirst)))
		unix.Close(fd)
	}
	return fail("asking to be ended first when memory runs out", err)
}

// oomScore is the adjustment by which this program is preferred as a victim
// (proc_pid_oom_score_adj(5)).
const oomScore = "/proc/self/oom_score_adj"

// hold keeps its user namespace alive until its standard input ends.
func hold() int {
	var b [1]byte
	for {
		if n, err := unix.Read(0, b[:]); err != unix.EINTR && n <= 0 {
			return 0
		}
	}
}

// readSealed reads a sealed memory file from its start, regardless of its offset, so that the
// same bytes serve both stages.
func readSealed(fd int, into inside.Message) error {
	const step = "reading the orders"
	const want = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&want != want {
		return fail("checking the seals of the orders", unix.EPERM)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(step, err)
	}
	text := make([]byte, st.Size)
	if err := readAt(fd, text, 0); err != nil {
		return fail(step, err)
	}
	return fail(step, inside.Decode(text, into))
}

func readAt(fd int, into []byte, at int64) error {
	for len(into) > 0 {
		n, err := unix.Pread(fd, into, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.EIO
		}
		into, at = into[n:], at+int64(n)
	}
	return nil
}

// stepError is a failure with the step that failed.
type stepError struct {
	step inside.Step
	err  error
}

func (e *stepError) Error() string { return e.step.String() + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

func fail[S ~string](step S, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{inside.Step(step), err}
}

func failure(err error) inside.Report {
	r := inside.Report{Failed: "running", Error: err.Error()}
	var step *stepError
	if errors.As(err, &step) {
		r.Failed, r.Error = step.step, step.err.Error()
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}
